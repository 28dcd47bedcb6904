package job

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newAdd() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:     "add FILE",
		Short:   "Check a job and store it; its tasks are handed out at once",
		Example: "  uridownloader job add news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(string) (method, path string) { return http.MethodPost, "/api/v1/jobs" })
	}), &skip)
}
