// Command urifilter remembers which items (URIs, IP addresses, any JSON value) were seen.
// The daemon (serve) answers over HTTP which items are new; the other commands talk to it
// (filter, check, filters, bitmap) or maintain its files (verify, config). This package has
// the tree of commands and the small commands; the large ones are packages in internal. The
// engine, the stores and the HTTP interface are in daemon/internal, the settings in configs,
// the calls in client.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/cr-clawer/urifilter/daemon/internal/program/command"

	_ "golang.org/x/crypto/x509roots/fallback" // authorities where the system has none, as in an image
)

func main() { os.Exit(runMain()) }

func runMain() int {
	// If the reader of our output leaves, handle the error instead of dying.
	signal.Ignore(syscall.SIGPIPE)
	ctx, stop := command.WithSignals(context.Background())
	defer stop()
	return run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
}
