package main

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newTopCommand() *cobra.Command {
	var watching command.Watching
	cmd := calls.Command(&cobra.Command{
		Use:   "top",
		Short: "Show what is being downloaded, until interrupted",
		Long: `Show what is being downloaded: the tasks of each job by state, how many end a second and
when the last will at that rate, which hosts hold a job up, which workers are alive, and why
attempts have failed. On a
terminal the table is redrawn every --interval, until Ctrl-C; elsewhere one follows the
other. Rates are those since the poll before. Errors are counted from a minute before the
start.

With --once it ends after one table, whose rates are those of one --interval; with
--once --interval 0 that comes at once, without rates. With --json each poll that is
answered is one line of JSON, and standard error has the others.`,
		Example: `  uridownloader top
  uridownloader top --once --interval 0 --json | jq .jobs`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, m *calls.Master, _ []string) error {
		watching.Terminal = terminal.Is(cmd.OutOrStdout())
		return command.Watch(cmd.Context(), cmd.OutOrStdout(), watching, following(func(ctx context.Context, since time.Time) (activity, error) {
			path := "/api/v1/activity"
			if !since.IsZero() {
				path += "?since=" + url.QueryEscape(since.Format(time.RFC3339Nano))
			}
			var a activity
			err := m.JSON(ctx, http.MethodGet, path, "", nil, &a)
			return a, err
		}), activity.write)
	})
	watching.Flags(cmd)
	return cmd
}

// following returns polls of which each is compared with the one before.
func following(poll func(ctx context.Context, since time.Time) (activity, error)) func(context.Context) (activity, error) {
	var last activity
	return func(ctx context.Context) (activity, error) {
		now, err := poll(ctx, last.Time)
		if err != nil {
			return now, err
		}
		if !last.Time.IsZero() {
			now.follow(last)
		}
		last = now
		return now, nil
	}
}
