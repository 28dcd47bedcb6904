//go:build mage

package main

import (
	"context"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cr-clawer/urifilter/provision"
)

// Urifilter is the daemon on the filter hosts.
type Urifilter mg.Namespace

// Get uploads the program to the hosts, makes it current, and creates missing bit-maps; a running daemon keeps the old program until it is restarted.
//
//	go tool mage urifilter:get
//	go tool mage urifilter:get -binary=urifilter-linux-{arch}
func (Urifilter) Get(
	ctx context.Context,
	binary *string, // push this program instead of building one; {arch} stands for amd64 or arm64
	change *string,
) error {
	return with(change, provision.Options{Binary: valueOr(binary, "")}, func(t *provision.Toolkit) error { return t.Get(ctx) })
}

// Start starts the daemons that are not running, and checks them with a real request.
//
//	go tool mage urifilter:start -hosts=web1
func (Urifilter) Start(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.Start(ctx) })
}

// Stop stops the daemons and closes their ports; what they remember stays.
//
//	go tool mage urifilter:stop -hosts=web1
func (Urifilter) Stop(ctx context.Context, change *string) error {
	return with(change, provision.Options{}, func(t *provision.Toolkit) error { return t.Stop(ctx) })
}

// Restart restarts the daemons one host at a time; callers wait meanwhile, and none is refused.
//
//	go tool mage urifilter:restart
func (Urifilter) Restart(ctx context.Context, roll *string) error {
	return with(roll, provision.Options{}, func(t *provision.Toolkit) error { return t.Restart(ctx) })
}

// Status shows on each host whether the daemon runs and is ready, its release, and since when.
//
//	go tool mage urifilter:status
//	go tool mage urifilter:status -json
//
// It exits with 1 when a daemon is not ready, and with 3 when a host is not reached.
func (Urifilter) Status(ctx context.Context, look *string) error {
	return with(look, provision.Options{}, func(t *provision.Toolkit) error { return t.Status(ctx) })
}

// Top shows what the daemons do, again and again until Ctrl-C: rates, the fullest filter, errors, release and health of each host.
//
//	go tool mage urifilter:top
//	go tool mage urifilter:top -hosts=web* -interval=10s
//	go tool mage urifilter:top -json | jq 'select(.answer.ready | not)'
//
// With -once, with -json and where no terminal is, it shows one table after one interval; it exits with 1 when a daemon
// is not ready, and with 3 when a host is not reached. A host is asked through the connection that stays open.
func (Urifilter) Top(
	ctx context.Context,
	interval *time.Duration, // between two looks, which rates are of; 2s if not given
	once *bool, // show one table, and end
	look *string,
) error {
	return with(look, provision.Options{}, func(t *provision.Toolkit) error {
		return t.Top(ctx, valueOr(interval, 2*time.Second), valueOr(once, false))
	})
}

// Logs shows the last lines of the daemons' journals.
//
//	go tool mage urifilter:logs -lines=200
//	go tool mage urifilter:logs -since="10 min ago" -hosts=web1
//	go tool mage urifilter:logs -follow
func (Urifilter) Logs(
	ctx context.Context,
	lines *int, // how many per host
	since *string, // not before this time, in a form that journalctl accepts
	follow *bool, // keep showing what they write, until Ctrl-C
	look *string,
) error {
	return with(look, provision.Options{}, func(t *provision.Toolkit) error {
		return t.Logs(ctx, valueOr(lines, 50), valueOr(since, ""), valueOr(follow, false))
	})
}

// Releases lists the releases on each host; * marks the current one.
//
//	go tool mage urifilter:releases
func (Urifilter) Releases(ctx context.Context, look *string) error {
	return with(look, provision.Options{}, func(t *provision.Toolkit) error { return t.Releases(ctx) })
}

// Rollback returns to the last healthy release, or to the one given, and restarts one host at a time.
//
//	go tool mage urifilter:rollback
//	go tool mage urifilter:rollback -version=20261121T091500Z
func (Urifilter) Rollback(
	ctx context.Context,
	version *string, // this release: its id or the beginning of its id
	roll *string,
) error {
	return with(roll, provision.Options{}, func(t *provision.Toolkit) error { return t.Rollback(ctx, valueOr(version, "")) })
}
