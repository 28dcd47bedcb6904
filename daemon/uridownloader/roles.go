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

const likeServe = `

Settings are read, and SIGTERM, SIGHUP and kill -9 work, as with "serve".`

func newMasterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "master",
		Short: "Run the master alone: accept jobs and URIs, report their results",
		Long: `Run the master alone: it accepts jobs and URIs over HTTP, and reports their results.
Dispatchers and workers are separate processes that use the same store. With --dispatch,
this process also has a dispatcher, which hands new URIs out at once and not a second
later; others may run beside it.

The setting filter.url is needed: all roles ask the same filters.` + likeServe,
		Example: `  # the master of several workers, as a service does it
  uridownloader master --dispatch --config /etc/uridownloader/uridownloader.yaml

  # on this machine, beside ` + "`uridownloader worker --data-dir ./data`" + `
  URIDOWNLOADER_FILTER_URL=http://127.0.0.1:8000 uridownloader master --dispatch --data-dir ./data`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.listen("serve HTTP", func(c *settings.Config) *string { return &c.Listen })
	f.tokens()
	dispatch := cmd.Flags().Bool("dispatch", false, "run a dispatcher in this process as well")
	cmd.RunE = func(*cobra.Command, []string) error {
		return f.serve(node.Roles{Master: true, Dispatch: *dispatch})
	}
	return cmd
}

func newWorkerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker alone: it downloads what is handed out",
		Long: `Run a worker alone: it downloads what dispatchers hand out, and keeps what came in the
store that it shares with them. There can be any number of workers. Each host is called
by one of them at a time.

/livez, /readyz and /metrics are on worker.listen, without a token. The setting
filter.url is needed: all roles ask the same filters.` + likeServe,
		Example: `  uridownloader worker --config /etc/uridownloader/uridownloader.yaml

  # a second one on the same machine
  uridownloader worker --config /etc/uridownloader/uridownloader.yaml --listen 127.0.0.1:8004`,
		Args: cobra.NoArgs,
	}
	f := newFlags(cmd)
	f.listen("answer health checks and metrics", func(c *settings.Config) *string { return &c.Worker.Listen })
	f.allowPrivate()
	cmd.RunE = func(*cobra.Command, []string) error { return f.serve(node.Roles{Worker: true}) }
	return cmd
}

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
