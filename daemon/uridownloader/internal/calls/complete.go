package calls

import (
	"context"
	"net/http"
	"time"

	"github.com/spf13/cobra"
)

// completionWait is how long the completion of a name waits for the master.
const completionWait = 2 * time.Second

// CompleteJob offers the names of the master's jobs, if the master answers quickly; further
// arguments are files.
func (f *Flags) CompleteJob(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveDefault
	}
	m, err := f.Dial(cmd)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completionWait)
	defer cancel()
	var answer struct {
		Jobs []struct{ Name, Status string }
	}
	if err := m.JSON(ctx, http.MethodGet, "/api/v1/jobs", "", nil, &answer); err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []cobra.Completion
	for _, j := range answer.Jobs {
		names = append(names, cobra.CompletionWithDesc(j.Name, j.Status))
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
