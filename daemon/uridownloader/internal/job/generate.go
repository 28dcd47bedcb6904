package job

import (
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newGenerate() *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:   "generate NAME",
		Short: "Run the script generate of a job now, beside its schedule",
		Long: `Run the script generate of a job now, beside its schedule. The run is a task of the job, as those of the schedule
are; run.time is the time of this call. It needs a token with the scope submit.`,
		Example: "  uridownloader job generate news\n  uridownloader tasks news        # whether it has ended\n  uridownloader logs news         # what failed, and why",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var answer struct {
			Run, Task, Status string
			Added             bool
		}
		if err := m.JSON(cmd.Context(), http.MethodPost, calls.JobPath(args[0])+"/generate", "", nil, &answer); err != nil {
			return err
		}
		does := "runs next"
		switch {
		case !answer.Added:
			does = "is there already"
		case answer.Status == "off":
			does = "waits until `uridownloader job resume " + args[0] + "`"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s %s, task %s\n", answer.Run, does, answer.Task)
		return err
	})
}
