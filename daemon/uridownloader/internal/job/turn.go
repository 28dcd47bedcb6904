package job

import (
	"encoding/json"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newTurn(verb, short string) *cobra.Command {
	return calls.Command(&cobra.Command{
		Use:     verb + " NAME",
		Short:   short,
		Example: "  uridownloader job " + verb + " news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var text json.RawMessage
		if err := m.JSON(cmd.Context(), http.MethodPost, calls.JobPath(args[0])+"/"+verb, "", nil, &text); err != nil {
			return err
		}
		return showJob(cmd.OutOrStdout(), text, false)
	})
}
