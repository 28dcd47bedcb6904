package service_test

import (
	"context"
	"fmt"
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
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// A stop requested before the first listener serves also ends the daemon: the drain knows the
// listeners from the start.
func TestStopBeforeServing(t *testing.T) {
	t.Parallel()
	cfg := configs.Default()
	cfg.DataDir, cfg.URINumScale = t.TempDir(), 1000
	for range 20 {
		cfg.Listen = testserver.Free(t) // no client gets this port, but it might get one chosen by the system
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
		// A process forked by another test keeps the port for a moment longer, until its exec.
		testserver.Await(t, "the port is closed", func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				_ = c.Close()
			}
			return err != nil
		})
	}
}

// SIGTERM at any moment of a start ends the process, without an error.
func TestStopAtAnyMomentOfAStart(t *testing.T) {
	t.Parallel()
	starts := 40
	if testing.Short() {
		starts = 8
	}
	processtest.Binary(t) // built before the clock starts
	var work sync.WaitGroup
	defer work.Wait()
	for range 2 {
		dir := t.TempDir()
		// The duration of a start here determines the moments to try.
		begun := time.Now()
		p := processtest.Start(t, dir, []string{"URIFILTER_URI_NUM_SCALE=1000"})
		took := time.Since(begun)
		if err := p.End(syscall.SIGTERM); err != nil {
			t.Fatalf("SIGTERM: %v\n%s", err, p.Log)
		}
		work.Go(func() {
			for range starts / 2 {
				p := processtest.Begin(t, dir, []string{"URIFILTER_URI_NUM_SCALE=1000"})
				after := rand.N(took + took/4)
				time.Sleep(after)
				p.Signal(syscall.SIGTERM)
				select {
				case <-p.Done:
				case <-time.After(2 * time.Minute):
					t.Errorf("SIGTERM %v after the start does not end it\n%s", after, p.Log)
					return
				}
				// Before it handles signals, the signal itself ends it.
				if p.Err != nil && p.Log.String() != "" || strings.Contains(p.Log.String(), `"level":"ERROR"`) {
					t.Errorf("SIGTERM %v after the start: %v\n%s", after, p.Err, p.Log)
				}
			}
		})
	}
}

// SIGTERM lets running requests end, and refuses none that were accepted.
func TestStopDrains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := processtest.Start(t, dir, nil)
	// A request whose body comes slowly is under way when the signal comes.
	conn, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := processtest.List(t, "slow")
	fmt.Fprintf(conn, "POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	const goOn = "HTTP/1.1 100 Continue\r\n\r\n" // the daemon waits for the body
	if said := make([]byte, len(goOn)); true {
		if _, err := io.ReadFull(conn, said); err != nil || string(said) != goOn {
			t.Fatalf("%q, %v", said, err)
		}
	}
	if _, err := fmt.Fprint(conn, body[:10]); err != nil {
		t.Fatal(err)
	}
	p.Signal(syscall.SIGTERM)
	testserver.Await(t, "no more connections are accepted", func() bool {
		other, err := net.Dial("tcp", p.Addr)
		if err == nil {
			_ = other.Close()
		}
		return err != nil
	}, p.Log)
	if _, err := fmt.Fprint(conn, body[10:]); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), `["slow"]`) {
		t.Fatalf("the request under way: %v, %s\n%s", err, answer[:n], p.Log)
	}
	_ = conn.Close()
	if err := p.Ended(); err != nil {
		t.Errorf("exit: %v\n%s", err, p.Log)
	}
	p = processtest.Start(t, dir, nil)
	if got := p.MustPost("/api/v1/filter", body, 200); !strings.Contains(got, `"uri_list":[]`) {
		t.Errorf("forgotten: %s", got)
	}
}
