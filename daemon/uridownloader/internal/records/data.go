package records

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// NewData makes the command data.
func NewData() *cobra.Command {
	cmd := newList(&cobra.Command{
		Use:   "data JOB",
		Short: "List what was downloaded for a job",
		Example: `  uridownloader data news
  uridownloader data body news 0123456789abcdef0123456789abcdef > page.html`,
	}, "data", func(r map[string]any) string {
		size, _ := r["size"].(float64)
		return fmt.Sprintf("%s  %3s  %10s  %-24s  %s", text(r, "task"), text(r, "status"), human.Bytes(int64(size)), text(r, "content_type"), text(r, "uri"))
	}, "task", "only of the task with this `id`")
	cmd.AddCommand(newBody())
	return cmd
}
