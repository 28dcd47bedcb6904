package main

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/server"
)

// A stop that is asked for before the first listener serves ends the daemon too: the
// drain knows the listeners from the start.
func TestStopBeforeServing(t *testing.T) {
	t.Parallel()
	cfg := configs.Default()
	cfg.Listen, cfg.DataDir, cfg.URINumScale = "127.0.0.1:0", t.TempDir(), 1000
	for range 20 {
		d, err := server.New(t.Context(), cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
		if err != nil {
			t.Fatal(err)
		}
		address := d.Addr().String()
		stopped, stop := context.WithCancel(t.Context())
		stop()
		ended := make(chan error, 1)
		go func() { ended <- d.Run(stopped, nil) }()
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(2 * time.Minute):
			stacks := make([]byte, 1<<20)
			t.Fatalf("does not end\n%s", stacks[:runtime.Stack(stacks, true)])
		}
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			t.Fatal("the port is still open")
		}
	}
}

// SIGTERM at any moment of a start ends the process, without an error.
func TestStopAtAnyMomentOfAStart(t *testing.T) {
	t.Parallel()
	starts := 40
	if testing.Short() {
		starts = 8
	}
	var work sync.WaitGroup
	defer work.Wait()
	for range 2 {
		dir := t.TempDir()
		// How long a start takes here says which moments there are.
		begun := time.Now()
		p := start(t, dir, []string{"URIFILTER_URI_NUM_SCALE=1000"})
		took := time.Since(begun)
		if err := p.end(syscall.SIGTERM); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, p.log)
		}
		work.Go(func() {
			for range starts / 2 {
				p := begin(t, dir, []string{"URIFILTER_URI_NUM_SCALE=1000"})
				after := rand.N(took + took/4)
				time.Sleep(after)
				p.signal(syscall.SIGTERM)
				select {
				case <-p.done:
				case <-time.After(time.Minute):
					t.Errorf("SIGTERM %v after the start does not end it\n%s", after, p.log)
					return
				}
				// Before it listens for signals the signal itself ends it.
				if p.err != nil && p.log.String() != "" || strings.Contains(p.log.String(), `"level":"ERROR"`) {
					t.Errorf("SIGTERM %v after the start: %v\n%s", after, p.err, p.log)
				}
			}
		})
	}
}
