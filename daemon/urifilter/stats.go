package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

func newStatsCommand() *cobra.Command {
	var conn connection.Flags
	var asJSON, once bool
	interval := 2 * time.Second
	cmd := conn.Calling(&cobra.Command{
		Use:   "stats",
		Short: "Show what a daemon is doing, until interrupted",
		Long: `Show what a daemon is doing: requests and errors, and for each filter its items, how full
it is, and how many items a second are asked about and new. On a terminal the table is
redrawn every --interval, until Ctrl-C; elsewhere one follows the other. Rates are
those since the poll before. The numbers are those of /metrics; calls for /metrics,
/livez and /readyz are not among the requests.

With --once it ends after one table, whose rates are those of one --interval; with
--once --interval 0 that comes at once, without rates. With --json each poll is one
line of JSON.`,
		Example: `  urifilter stats
  urifilter stats --once --interval 0 --json | jq .filters`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, daemon *client.Client, _ []string) error {
		if interval < 0 || interval == 0 && !once {
			return command.UsageError{Err: fmt.Errorf("--interval %s: want more than 0, or 0 with --once", interval)}
		}
		return watchStats(cmd.Context(), daemon, cmd.OutOrStdout(), watching{interval, once, asJSON, terminal.Is(cmd.OutOrStdout())})
	})
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().DurationVar(&interval, "interval", interval, "`time` between two polls")
	cmd.Flags().BoolVar(&once, "once", false, "print one table and exit")
	return cmd
}

// watching says how stats shows its results.
type watching struct {
	interval               time.Duration
	once, asJSON, terminal bool
}

// watchStats polls until ctx ends, or once. A daemon that no longer
// answers is shown as such.
func watchStats(ctx context.Context, daemon *client.Client, out io.Writer, w watching) error {
	before, err := poll(ctx, daemon)
	if err != nil {
		return err
	}
	if w.once && w.interval == 0 {
		return w.show(out, before.since(nil))
	}
	if !w.once {
		if err := w.show(out, before.since(nil)); err != nil {
			return err
		}
	}
	tick := time.NewTicker(w.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if w.once {
				return context.Cause(ctx)
			}
			return command.Stopped(ctx)
		case <-tick.C:
		}
		now, err := poll(ctx, daemon)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil && w.once:
			return err
		case err != nil:
			if _, err := fmt.Fprintf(out, "no answer: %v\n", err); err != nil {
				return err
			}
			continue
		}
		if err := w.show(out, now.since(before)); err != nil || w.once {
			return err
		}
		before = now
	}
}

func (w watching) show(out io.Writer, s stats) error {
	if w.asJSON {
		line, err := json.Marshal(s)
		if err == nil {
			_, err = fmt.Fprintf(out, "%s\n", line)
		}
		return err
	}
	if w.terminal && !w.once {
		if err := terminal.Clear(out); err != nil {
			return err
		}
	}
	return s.write(out)
}
