package main

import (
	"github.com/spf13/cobra"

	settings "github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/download/node"
)

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
