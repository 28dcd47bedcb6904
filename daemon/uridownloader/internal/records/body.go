package records

import (
	"io"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newBody() *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:     "body JOB TASK",
		Short:   "Print the body that was downloaded for a task",
		Example: "  uridownloader data body news 0123456789abcdef0123456789abcdef > page.html",
		Args:    cobra.ExactArgs(2),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		resp, err := m.Do(cmd.Context(), http.MethodGet, calls.JobPath(args[0])+"/data/"+url.PathEscape(args[1]), "", nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		_, err = io.Copy(cmd.OutOrStdout(), resp.Body)
		return err
	})
}
