package main

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/downloader"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/bench"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/bitmap"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filter"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/filters"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/mysql"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/near"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/size"
)

const (
	groupFilter = "filter"
	groupDaemon = "daemon"
	groupOther  = "other"
)

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, in io.Reader, out, errOut io.Writer) int {
	return command.Run(ctx, newRootCommand(), command.Line{Args: args, In: in, Out: out, Err: errOut, Hint: connection.Hint, Exit: connection.Exit})
}

func newRootCommand() *cobra.Command {
	root := command.NewRoot(&cobra.Command{
		Use:   "urifilter",
		Short: "Remember what has been seen; say what is new",
		Long: `urifilter remembers what has been seen, and says what is new.

A daemon (urifilter serve) keeps the filters. Crawlers ask it over HTTP; people and
scripts with the commands below. An item is a URI, an IP address, any line or JSON
value; a filter is a named set of items.

Exit codes: 0 done, 1 failed, 2 wrong command line, 130 after Ctrl-C (128 and the
number of the signal); "service" has two more.`,
		Example: `  # start a daemon on this machine, with its data under the present folder
  urifilter serve --data-dir ./data

  # which of these lines are new?
  urifilter filter --filter uri_generator links.txt`,
	},
		&cobra.Group{ID: groupFilter, Title: "Ask a daemon:"},
		&cobra.Group{ID: groupDaemon, Title: "Run a daemon:"},
		&cobra.Group{ID: groupOther, Title: "More:"},
	)
	command.Add(root, groupFilter, filter.New(), filter.NewCheck(), filter.NewForget(), filter.NewReserve(), filter.NewCommit(), filter.NewRelease(), filter.NewImport(), filter.NewExport(), near.New(), filters.New(), newPingCommand(), newStatsCommand())
	command.Add(root, groupDaemon, newServeCommand(), newVerifyCommand(), bitmap.New(), mysql.New(), newConfigCommand(),
		command.NewToken(command.Tokens{Program: "urifilter", Scopes: configs.Scopes(), Usual: []string{"read", "filter"}, Other: "uridownloader", OtherScopes: downloader.Scopes()}), newServiceCommand())
	command.Add(root, groupOther, size.New(), bench.New(), command.NewVersion("urifilter"),
		command.NewMan("urifilter", "  urifilter man --dir ~/.local/share/man/man1\n  man urifilter-filter"))
	return root
}
