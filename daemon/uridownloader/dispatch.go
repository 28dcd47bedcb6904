package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/dispatch"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

func newDispatchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dispatch",
		Short: "Run a dispatcher alone, or one round of it: tasks are handed out to workers",
		Long: `Run a dispatcher alone: it hands tasks out to workers, looks every second whether there
are more, and sweeps up what dead workers left. Any number of dispatchers may run: one
works, the others stand by.

With --once it does one round, prints what it did, and ends, for a crontab: exit code 0,
also when another dispatcher is at work, or 1 when the store could not be used or a job
got no turn because of an error.

/livez, /readyz and /metrics are on dispatch.listen, without a token.` + likeServe,
		Example: `  uridownloader dispatch --config /etc/uridownloader/uridownloader.yaml

  # in a crontab
  */5 * * * * uridownloader uridownloader dispatch --once`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.listen("answer health checks and metrics", func(c *settings.Config) *string { return &c.Dispatch.Listen })
	once := cmd.Flags().Bool("once", false, "do one round, and end")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !*once {
			return f.serve(node.Roles{Dispatch: true})
		}
		cfg, log, err := f.read()
		if err != nil {
			return err
		}
		report, err := node.DispatchOnce(cmd.Context(), cfg, log)
		if err != nil && !report.Held {
			return err
		}
		printRound(cmd.OutOrStdout(), report)
		return err
	}
	return cmd
}

func printRound(out io.Writer, r dispatch.Report) {
	if !r.Held {
		fmt.Fprintln(out, "another dispatcher is active: nothing was done")
		return
	}
	n := func(n int) string { return human.Count(int64(n)) }
	fmt.Fprintf(out, "%s handed out; %s waiting, %s ready, %s running\n", n(r.HandedOut), n(r.Waiting), n(r.Ready), n(r.Running))
	if s := r.Swept; s.Unclaimed+s.Abandoned > 0 {
		fmt.Fprintf(out, "%s were ready and not leased in time, %s were left by workers that have died, of which %s have failed\n", n(s.Unclaimed), n(s.Abandoned), n(s.Failed))
	}
}
