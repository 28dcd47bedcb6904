package job

import (
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newChange() *cobra.Command {
	var skip bool
	return skipInvalid(calls.Command(&cobra.Command{
		Use:     "change FILE",
		Short:   "Give a job the settings in a file, as a new version",
		Example: "  uridownloader job change news.yaml",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		return send(cmd, m, args[0], skip, func(name string) (method, path string) { return http.MethodPut, calls.JobPath(name) })
	}), &skip)
}
