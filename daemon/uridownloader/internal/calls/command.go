package calls

import (
	"net/url"
	"strings"

	"github.com/spf13/cobra"
)

// Command makes a command that calls a master. A first argument that its Use calls NAME or JOB is the
// name of a job, and is completed.
func Command(cmd *cobra.Command, do func(cmd *cobra.Command, m *Master, args []string) error) *cobra.Command {
	var flags Flags
	flags.Register(cmd)
	if strings.Contains(cmd.Use, " NAME") || strings.Contains(cmd.Use, " JOB") {
		cmd.ValidArgsFunction = flags.CompleteJob
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		m, err := flags.Dial(cmd)
		if err != nil {
			return err
		}
		return do(cmd, m, args)
	}
	return cmd
}

// JobPath is the path of a job in the API of masters.
func JobPath(name string) string { return "/api/v1/jobs/" + url.PathEscape(name) }
