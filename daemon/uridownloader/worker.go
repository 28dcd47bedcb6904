package main

import (
	"github.com/spf13/cobra"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
)

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
