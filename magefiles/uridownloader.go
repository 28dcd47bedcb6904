//go:build mage

package main

import (
	"context"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

var ofDownloader = provision.Options{Program: "uridownloader"}

// Uridownloader is the daemon on the downloader hosts.
type Uridownloader mg.Namespace

// Get uploads the program to the hosts and makes it current; a running daemon keeps the old program until it is restarted.
//
//	go tool mage downloader:get
//	go tool mage downloader:get -binary=uridownloader-linux-{arch}
func (Uridownloader) Get(
	ctx context.Context,
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64
	change *string,
) error {
	return with(change, provision.Options{Program: "uridownloader", Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.Get(ctx) })
}

// Start starts the daemons that are not running, and checks them.
//
//	go tool mage downloader:start -hosts=down1
func (Uridownloader) Start(ctx context.Context, change *string) error {
	return with(change, ofDownloader, func(t *provision.Toolkit) error { return t.Start(ctx) })
}

// Stop stops the daemons and closes their ports; downloads in progress are finished or given back.
//
//	go tool mage downloader:stop -hosts=down1
func (Uridownloader) Stop(ctx context.Context, change *string) error {
	return with(change, ofDownloader, func(t *provision.Toolkit) error { return t.Stop(ctx) })
}

// Restart restarts the daemons one host at a time; callers wait meanwhile, and downloads go on afterwards.
//
//	go tool mage downloader:restart
func (Uridownloader) Restart(ctx context.Context, roll *string) error {
	return with(roll, ofDownloader, func(t *provision.Toolkit) error { return t.Restart(ctx) })
}

// Status shows on each host whether the daemon runs and is ready, its release, and since when.
//
//	go tool mage downloader:status
//	go tool mage downloader:status -json
//
// It exits with 1 when a daemon is not ready, and with 3 when a host is not reached.
func (Uridownloader) Status(ctx context.Context, look *string) error {
	return with(look, ofDownloader, func(t *provision.Toolkit) error { return t.Status(ctx) })
}

// Logs shows the last lines of the daemons' journals.
//
//	go tool mage downloader:logs -lines=200
//	go tool mage downloader:logs -since="10 min ago" -hosts=down1
//	go tool mage downloader:logs -follow
func (Uridownloader) Logs(
	ctx context.Context,
	lines *int, // how many per host
	since *string, // not before this time, in a form that journalctl accepts
	follow *bool, // keep showing what they write, until Ctrl-C
	look *string,
) error {
	return with(look, ofDownloader, func(t *provision.Toolkit) error {
		return t.Logs(ctx, valueOr(lines, 50), valueOr(since, ""), valueOr(follow, false))
	})
}

// Releases lists the releases on each host; * marks the current one.
//
//	go tool mage downloader:releases
func (Uridownloader) Releases(ctx context.Context, look *string) error {
	return with(look, ofDownloader, func(t *provision.Toolkit) error { return t.Releases(ctx) })
}

// Rollback returns to the last healthy release, or to the one given, and restarts one host at a time.
//
//	go tool mage downloader:rollback
//	go tool mage downloader:rollback -version=20261121T091500Z
func (Uridownloader) Rollback(
	ctx context.Context,
	version *string, // this release: its id or the beginning of its id
	roll *string,
) error {
	return with(roll, ofDownloader, func(t *provision.Toolkit) error { return t.Rollback(ctx, valueOr(version, "")) })
}
