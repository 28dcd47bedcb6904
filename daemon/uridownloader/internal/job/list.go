package job

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newList() *cobra.Command {
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:     "list",
		Short:   "List all jobs, with their tasks by state",
		Example: "  uridownloader job list",
		Args:    cobra.NoArgs,
	}, func(cmd *cobra.Command, m *calls.Master, _ []string) error {
		var answer struct{ Jobs []json.RawMessage }
		if err := m.JSON(cmd.Context(), http.MethodGet, "/api/v1/jobs", "", nil, &answer); err != nil {
			return err
		}
		rows := [][]string{jobHeader()}
		for _, text := range answer.Jobs {
			if asJSON {
				if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s\n", text); err != nil {
					return err
				}
				continue
			}
			var j job
			if err := json.Unmarshal(text, &j); err != nil {
				return err
			}
			rows = append(rows, j.row())
		}
		if asJSON {
			return nil
		}
		return human.Table(cmd.OutOrStdout(), rows, map[int]bool{0: true, 1: true})
	})
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON, one job a line")
	return cmd
}
