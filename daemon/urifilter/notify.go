package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"
)

const (
	statusEvery  = 5 * time.Second
	readyTimeout = 2 * time.Second
	// A start is given more time as long as it lasts, up to startPatience: to load bit-maps
	// from a slow disk takes minutes, and a Redis may be slower still.
	startPatience = 30 * time.Minute
	extendEvery   = 10 * time.Second
	extendBy      = time.Minute
)

// notify tells the service manager; where there is none nobody hears it.
func notify(assignments ...string) {
	_, _ = sdnotify.SdNotify(false, strings.Join(assignments, "\n"))
}

func status(format string, args ...any) string {
	return "STATUS=" + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
}

// moreTime asks the service manager to wait that long from now.
func moreTime(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

// keepStarting asks for more time until stop is called.
func keepStarting() (stop func()) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	var work sync.WaitGroup
	work.Go(func() {
		every(ctx, extendEvery, func() { notify(moreTime(extendBy)) })
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// every calls f now and then again and again, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		f()
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// pingWatchdog tells the service manager that the daemon lives, twice as often as it
// wants to hear that. Before each ping it takes the locks that every batch takes: where
// one of them is held for good, no ping follows. A disk or a Redis that does not answer
// is not waited for: a restart would not bring it back.
func (d *daemon) pingWatchdog(ctx context.Context) {
	wanted, err := sdnotify.SdWatchdogEnabled(false)
	if err != nil {
		d.log.Warn("the watchdog of the service manager is not pinged", "err", err)
		return
	}
	if wanted <= 0 {
		return
	}
	every(ctx, wanted/2, func() {
		for _, f := range d.engine.Filters() {
			f.Stats()
		}
		notify(sdnotify.SdNotifyWatchdog)
	})
}

// tellStatus keeps the line that `systemctl status` shows.
func (d *daemon) tellStatus(ctx context.Context) {
	if os.Getenv("NOTIFY_SOCKET") == "" {
		return
	}
	last := ""
	every(ctx, statusEvery, func() {
		ask, cancel := context.WithTimeout(ctx, readyTimeout)
		defer cancel()
		now := status("Serving %s: %d filters", d.url(), len(d.engine.Filters()))
		if err := d.engine.Ready(ask); err != nil {
			now = status("Serving %s, NOT READY: %v", d.url(), err)
		}
		if now != last && ctx.Err() == nil {
			notify(now)
			last = now
		}
	})
}

// reload is what the service manager's reload asks for.
func (d *daemon) reload() {
	notify(sdnotify.SdNotifyReloading, sdnotify.SdNotifyMonotonicUsec())
	d.secrets.reload()
	notify(sdnotify.SdNotifyReady)
}
