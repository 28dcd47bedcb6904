//go:build unix

package main

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/testport"
)

// manager stands in for systemd: it hears what the daemon tells of itself.
type manager struct {
	t    *testing.T
	path string
	conn *net.UnixConn
	mu   sync.Mutex
	said []string // one line an assignment
}

func newManager(t *testing.T) *manager {
	t.Helper()
	// The path of a socket is at most about a hundred bytes long.
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	m := &manager{t: t, path: filepath.Join(dir, "s")}
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		buf := make([]byte, 4096)
		for {
			n, err := m.conn.Read(buf)
			if err != nil {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, strings.Split(string(buf[:n]), "\n")...)
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		_ = m.conn.Close()
		<-heard
		_ = os.RemoveAll(dir)
	})
	return m
}

func (m *manager) env() []string { return []string{"NOTIFY_SOCKET=" + m.path} }

func (m *manager) all() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return "\n" + strings.Join(m.said, "\n") + "\n"
}

// hear has the manager read all that was said before, and this line.
func (m *manager) hear(line string) {
	m.t.Helper()
	conn, err := net.Dial("unixgram", m.path)
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte(line)); err != nil {
		m.t.Fatal(err)
	}
	m.await(line, 1)
}

// await waits until a line that begins so has been said n times.
func (m *manager) await(line string, n int) {
	m.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); strings.Count(m.all(), "\n"+line) < n; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("%s: not said %d times in 2 min:%s", line, n, m.all())
		}
	}
}

func TestTellsTheServiceManager(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	p := begin(t, t.TempDir(), append(m.env(), "WATCHDOG_USEC=200000"))
	m.await("READY=1", 1)
	m.await("STATUS=Serving http://"+p.addr+": 5 filters", 1)
	m.await("WATCHDOG=1", 3)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
	said := m.all()
	order := []string{"\nEXTEND_TIMEOUT_USEC=60000000\n", "\nREADY=1\n", "\nSTOPPING=1\nSTATUS=Stopping", "\nEXTEND_TIMEOUT_USEC=90000000\n"}
	at := 0
	for _, line := range order {
		i := strings.Index(said[at:], line)
		if i < 0 {
			t.Fatalf("%q does not follow what should come before it in:%s", line, said)
		}
		at += i
	}
}

// Another process is pinged for where the variable names it.
func TestNoWatchdogForAnother(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	p := begin(t, t.TempDir(), append(m.env(), "WATCHDOG_USEC=2000", "WATCHDOG_PID=1"))
	m.await("STATUS=Serving", 1)
	if err := p.end(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.log)
	}
	if strings.Contains(m.all(), "WATCHDOG=1") {
		t.Error("it pings for a process that it is not")
	}
}

// stuckStore has one filter, whose lock can be held for good.
type stuckStore struct {
	engine.Store // what the test does not call
	lock         sync.Mutex
	asked        atomic.Int32 // calls that have not returned
}

type stuckSet struct {
	engine.Set
	s *stuckStore
}

func (s *stuckStore) Load(context.Context) (map[engine.Spec]engine.Set, error) {
	return map[engine.Spec]engine.Set{{ID: 1, Name: "uri", Kind: "bloom"}: stuckSet{s: s}}, nil
}

func (s stuckSet) Stats() engine.Stats {
	s.s.asked.Add(1)
	defer s.s.asked.Add(-1)
	s.s.lock.Lock()
	defer s.s.lock.Unlock()
	return engine.Stats{}
}

// A filter that is stuck gets no more pings, until it is not stuck any more.
func TestWatchdogIsNotPingedForAHungFilter(t *testing.T) {
	m := newManager(t)
	t.Setenv("NOTIFY_SOCKET", m.path)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	store := &stuckStore{}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engine.Open(t.Context(), store, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pinging sync.WaitGroup
	pinging.Go(func() { lifecycle.PingWatchdog(ctx, e.TakeLocks, log) })
	defer pinging.Wait()
	defer cancel()
	pings := func() int { return strings.Count(m.all(), "\nWATCHDOG=1") }
	m.await("WATCHDOG=1", 3)
	store.lock.Lock()
	for store.asked.Load() == 0 { // whoever is stuck has sent all pings before
		time.Sleep(time.Millisecond)
	}
	m.hear("STUCK=1")
	before := pings()
	time.Sleep(200 * time.Millisecond) // ten pings
	if after := pings(); after != before {
		t.Errorf("%d pings while the filter was stuck", after-before)
	}
	store.lock.Unlock()
	m.await("WATCHDOG=1", before+2)
}

// What a dead Redis or a waiting archive holds up is in the status, and no reason to die.
func TestStatusSaysWhyNotReady(t *testing.T) {
	t.Parallel()
	m := newManager(t)
	nobody := testport.Free(t)
	p := begin(t, t.TempDir(), append(m.env(), "WATCHDOG_USEC=200000", "URIFILTER_MONGODB_URI=mongodb://"+nobody+"/?serverSelectionTimeoutMS=200"))
	m.await("STATUS=Serving http://"+p.addr+", NOT READY: ", 1)
	m.await("WATCHDOG=1", 5)
}
