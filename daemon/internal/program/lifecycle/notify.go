// Package lifecycle exchanges messages between a program and its service manager (systemd), from
// start to stop, and bounds how long a stop may take. Without a service manager the messages go
// nowhere.
package lifecycle

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	sdnotify "github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/term"

	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
)

const (
	statusEvery   = 5 * time.Second
	statusTimeout = 2 * time.Second
	// A start gets more time while it lasts, up to startPatience: loading bit-maps from a slow
	// disk takes minutes, and a Redis may be slower still.
	startPatience = 30 * time.Minute
	extendEvery   = 10 * time.Second
	extendBy      = time.Minute
)

// The messages for Notify, as defined in sd_notify(3).
const (
	Ready    = sdnotify.SdNotifyReady
	Stopping = sdnotify.SdNotifyStopping
)

// Notify sends a message to the service manager.
func Notify(assignments ...string) {
	_, _ = sdnotify.SdNotify(false, strings.Join(assignments, "\n"))
}

// Reloading says that a reload begins; Ready ends it.
func Reloading() { Notify(sdnotify.SdNotifyReloading, sdnotify.SdNotifyMonotonicUsec()) }

// Status is the line that `systemctl status` shows.
func Status(format string, args ...any) string {
	return "STATUS=" + strings.ReplaceAll(fmt.Sprintf(format, args...), "\n", "; ")
}

// MoreTime asks the service manager to wait this long from now.
func MoreTime(d time.Duration) string { return fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()) }

func heard() bool { return os.Getenv("NOTIFY_SOCKET") != "" }

// KeepStarting asks for more time until stop is called.
func KeepStarting() (stop func()) {
	if !heard() {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	var work sync.WaitGroup
	work.Go(func() {
		every(ctx, extendEvery, func() { Notify(MoreTime(extendBy)) })
	})
	return func() {
		cancel()
		work.Wait()
	}
}

// TellHeld says, in the log and to the service manager, that a start waits because of held, and with nil
// that it goes on, with what it does next.
func TellHeld(log *slog.Logger, next string) func(held error) {
	return func(held error) {
		if held == nil {
			log.Info("the start goes on")
			Notify(Status("Starting: %s", next))
			return
		}
		log.Warn("the start waits until that process ends", "err", held)
		Notify(Status("Starting: waiting until that process ends: %v", held))
	}
}

// every calls f now and then repeatedly, until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	f()
	for range repeat.Every(ctx, interval) {
		f()
	}
}

// PingWatchdog sends heartbeats to the service manager, twice as often as it requires, until
// ctx ends. Before each it calls alive: if that hangs, no heartbeat follows.
func PingWatchdog(ctx context.Context, alive func(), log *slog.Logger) {
	wanted, err := sdnotify.SdWatchdogEnabled(false)
	if err != nil {
		log.Warn("the watchdog of the service manager is not pinged", "err", err)
		return
	}
	if wanted <= 0 {
		return
	}
	every(ctx, wanted/2, func() {
		alive()
		Notify(sdnotify.SdNotifyWatchdog)
	})
}

// TellStatus updates the line that `systemctl status` shows, until ctx ends. The function that
// returns the line has 2 s.
func TellStatus(ctx context.Context, line func(context.Context) string) {
	if !heard() {
		return
	}
	last := ""
	every(ctx, statusEvery, func() {
		ask, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		if now := Status("%s", line(ask)); now != last && ctx.Err() == nil {
			Notify(now)
			last = now
		}
	})
}

// ReloadSignals delivers requests to reload files: SIGHUP, except at a terminal, where it ends
// the program as usual. The caller stops them with [signal.Stop].
func ReloadSignals() chan os.Signal {
	reload := make(chan os.Signal, 1)
	if !term.IsTerminal(int(os.Stdin.Fd())) {
		signal.Notify(reload, syscall.SIGHUP)
	}
	return reload
}
