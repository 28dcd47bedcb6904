package records

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// NewTasks makes the command tasks.
func NewTasks() *cobra.Command {
	return newList(&cobra.Command{
		Use:   "tasks JOB",
		Short: "List the tasks of a job",
		Example: `  uridownloader tasks news --state failed
  uridownloader tasks news --json | jq -r .uri`,
	}, "tasks", func(r map[string]any) string {
		line := fmt.Sprintf("%-8s %3s  %s", text(r, "state"), text(r, "attempts"), text(r, "uri"))
		if reason := text(r, "failed_reason"); reason != "-" {
			line += "  (" + strings.Join(strings.Fields(reason), " ") + ")"
		}
		return line
	}, "state", "only tasks in this `state`: waiting, ready, running, done or failed")
}
