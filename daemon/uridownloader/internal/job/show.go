package job

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newShow() *cobra.Command {
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:     "show NAME",
		Short:   "Show a job, with its tasks by state",
		Example: "  uridownloader job show news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodGet, calls.JobPath(args[0]), "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, asJSON)
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print it as JSON")
	return cmd
}
