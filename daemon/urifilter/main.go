// Command urifilter remembers which items (URIs, IP addresses, any JSON value) were seen.
// The daemon (serve) answers over HTTP which items are new; the other commands talk to it
// (filter, check, filters, bitmap) or look after its files (verify, config). This package
// has the tree of commands and the small ones; the large ones are rooms of internal. The
// engine, the stores and the HTTP interface are in daemon/internal, the settings in configs,
// the calls in client.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

func main() { os.Exit(runMain()) }

func runMain() int {
	// A reader of our output who leaves is an error to handle, not a death.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := command.WithSignals(context.Background())
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
