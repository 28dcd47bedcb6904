package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/calls"
)

func newTopCommand() *cobra.Command {
	var asJSON, once bool
	interval := 2 * time.Second
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
--once --interval 0 that comes at once, without rates. With --json each poll is one
line of JSON.`,
		Example: `  uridownloader top
  uridownloader top --once --interval 0 --json | jq .jobs`,
		Args: cobra.NoArgs,
	}, func(cmd *cobra.Command, m *calls.Master, _ []string) error {
		if interval < 0 || interval == 0 && !once {
			return command.UsageError{Err: fmt.Errorf("--interval %s: want more than 0, or 0 with --once", interval)}
		}
		t := top{out: cmd.OutOrStdout(), interval: interval, once: once, asJSON: asJSON, terminal: terminal.Is(cmd.OutOrStdout())}
		t.poll = func(ctx context.Context, since time.Time) (activity, error) {
			path := "/api/v1/activity"
			if !since.IsZero() {
				path += "?since=" + url.QueryEscape(since.Format(time.RFC3339Nano))
			}
			var a activity
			err := m.JSON(ctx, http.MethodGet, path, "", nil, &a)
			return a, err
		}
		return t.watch(cmd.Context())
	})
	command.JSONFlag(cmd, &asJSON)
	cmd.Flags().DurationVar(&interval, "interval", interval, "`time` between two polls")
	cmd.Flags().BoolVar(&once, "once", false, "print one table and exit")
	return cmd
}

// top is how the command displays activity.
type top struct {
	poll     func(ctx context.Context, since time.Time) (activity, error)
	out      io.Writer
	interval time.Duration
	once     bool
	asJSON   bool
	terminal bool
}

// watch polls until ctx ends, which is the normal end, or only once. It shows a master that no
// longer answers as such.
func (t top) watch(ctx context.Context) error {
	last, err := t.poll(ctx, time.Time{})
	if err != nil {
		return err
	}
	if !t.once || t.interval == 0 {
		if err := t.show(last); err != nil || t.once {
			return err
		}
	}
	tick := time.NewTicker(t.interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			if t.once {
				return context.Cause(ctx)
			}
			return command.Stopped(ctx)
		case <-tick.C:
		}
		now, err := t.poll(ctx, last.Time)
		switch {
		case ctx.Err() != nil:
			continue
		case err != nil && t.once:
			return err
		case err != nil:
			if _, err := fmt.Fprintf(t.out, "no answer: %v\n", err); err != nil {
				return err
			}
			continue
		}
		now.follow(last)
		if err := t.show(now); err != nil || t.once {
			return err
		}
		last = now
	}
}

func (t top) show(a activity) error {
	if t.asJSON {
		line, err := json.Marshal(a)
		if err == nil {
			_, err = fmt.Fprintf(t.out, "%s\n", line)
		}
		return err
	}
	if t.terminal && !t.once {
		if err := terminal.Clear(t.out); err != nil {
			return err
		}
	}
	return a.write(t.out)
}
