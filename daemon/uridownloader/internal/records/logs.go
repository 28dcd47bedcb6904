package records

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// NewLogs makes the command logs.
func NewLogs() *cobra.Command {
	return newList(&cobra.Command{
		Use:     "logs JOB",
		Short:   "List the attempts of a job: when, what came, how long it took",
		Example: "  uridownloader logs news --limit 20",
	}, "logs", func(r map[string]any) string {
		spent, _ := r["spend_time_us"].(float64)
		return strings.TrimRight(fmt.Sprintf("%s  %3s  %7s  %s  %s", text(r, "added"), text(r, "status"),
			human.Duration((time.Duration(spent)*time.Microsecond).Round(time.Millisecond)), text(r, "uri"), strings.TrimPrefix(strings.Join(strings.Fields(text(r, "failed_reason")), " "), "-")), " ")
	}, "task", "only of the task with this `id`")
}
