package job

import (
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newRetry() *cobra.Command {
	var reasons, hosts []string
	var asJSON bool
	cmd := calls.Command(&cobra.Command{
		Use:   "retry NAME",
		Short: "Try tasks of a job again that have failed",
		Long: `Try tasks of a job again that have failed, as if they had never been tried: all of them, or those whose
last attempt failed for one of some reasons, or that are of one of some hosts. A reason is the word with which it
begins in the output of tasks, such as timeout. It needs a token with the scope submit.`,
		Example: "  uridownloader job retry news\n  uridownloader job retry news --reason connect --reason timeout --host www.example.com",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		var answer struct {
			Retried int    `json:"retried"`
			Status  string `json:"status"`
		}
		path := calls.JobPath(args[0]) + "/retry"
		if query := (url.Values{"reason": reasons, "host": hosts}).Encode(); query != "" {
			path += "?" + query
		}
		if err := m.JSON(cmd.Context(), http.MethodPost, path, "", nil, &answer); err != nil {
			return err
		}
		if asJSON {
			return command.WriteJSON(cmd.OutOrStdout(), answer)
		}
		note := ""
		if answer.Status == "off" {
			note = "; the job is off: `uridownloader job resume " + args[0] + "`"
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s tasks wait again%s\n", human.Count(int64(answer.Retried)), note)
		return err
	})
	cmd.Flags().StringArrayVar(&reasons, "reason", nil, "only those that failed for this `reason`; may be given several times")
	cmd.Flags().StringArrayVar(&hosts, "host", nil, "only those of this `host`; may be given several times")
	command.JSONFlag(cmd, &asJSON)
	return cmd
}
