package job

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newDrop() *cobra.Command {
	var confirm string
	cmd := calls.Command(&cobra.Command{
		Use:     "drop NAME --confirm NAME",
		Short:   "Remove a job with its tasks, data and logs",
		Example: "  uridownloader job drop news --confirm news",
		Args:    cobra.ExactArgs(1),
	}, func(cmd *cobra.Command, m *calls.Master, args []string) error {
		if confirm != args[0] {
			return command.UsageError{Err: errors.New("its tasks, data and logs are removed with it: want --confirm " + args[0])}
		}
		if err := m.JSON(context.WithoutCancel(cmd.Context()), http.MethodDelete, calls.JobPath(args[0])+"?confirm="+url.QueryEscape(confirm), "", nil, nil); err != nil {
			return err
		}
		_, err := fmt.Fprintf(cmd.OutOrStdout(), "job %s is dropped\n", args[0])
		return err
	})
	cmd.Flags().StringVar(&confirm, "confirm", "", "repeat the `name` of the job to confirm")
	return cmd
}
