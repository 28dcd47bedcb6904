//go:build unix

package service_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/lifecycle"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

func TestTellsTheServiceManager(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	p := processtest.Begin(t, t.TempDir(), append(m.Env(), "WATCHDOG_USEC=200000"))
	m.Await("READY=1", 1)
	m.Await("STATUS=Serving http://"+p.Addr+": 5 filters", 1)
	m.Await("WATCHDOG=1", 3)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
	said := m.String()
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

// A start waits for a command that has the data directory, and says so, until the command or the start is
// ended. Meanwhile a second daemon is refused.
func TestStartWaitsForACommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	command, err := disk.AcquireLock(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	waiting := fmt.Sprintf("STATUS=Starting: waiting until that process ends: data directory %s: %s: held by process %d", dir, filepath.Join(dir, "lock"), os.Getpid())
	m := processtest.NewManager(t)
	p := processtest.Begin(t, dir, m.Env())
	m.Await(waiting, 1)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM while it waits: %v\n%s", err, p.Log)
	}
	p = processtest.Begin(t, dir, m.Env())
	m.Await(waiting, 2)
	processtest.MustContain(t, processtest.MustRefuse(t, nil, "--listen", "127.0.0.1:0", "--data-dir", dir), dir, fmt.Sprint("held by process ", p.Cmd.Process.Pid), "hint:")
	if err := command.Release(); err != nil {
		t.Fatal(err)
	}
	p.AwaitReady()
	m.Await("STATUS=Starting: loading filters", 3)
	if said := p.Log.String(); strings.Count(said, "the start waits until that process ends") != 1 {
		t.Errorf("it does not say once that it waits:\n%s", said)
	}
}

// If the variable names another process, there are no pings for this one.
func TestNoWatchdogForAnother(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	p := processtest.Begin(t, t.TempDir(), append(m.Env(), "WATCHDOG_USEC=2000", "WATCHDOG_PID=1"))
	m.Await("STATUS=Serving", 1)
	if err := p.End(syscall.SIGTERM); err != nil {
		t.Errorf("SIGTERM: %v\n%s", err, p.Log)
	}
	if strings.Contains(m.String(), "WATCHDOG=1") {
		t.Error("it pings for a process that it is not")
	}
}

// stuckStore has one filter, whose lock can be held forever.
type stuckStore struct {
	engine.Store // what the test does not call
	lock         sync.Mutex
	asked        atomic.Int32 // calls that did not get the lock
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
	s.s.lock.Lock()
	defer s.s.lock.Unlock()
	s.s.asked.Add(-1)
	return engine.Stats{}
}

// A stuck filter stops the pings, until it is no longer stuck.
func TestWatchdogIsNotPingedForAHungFilter(t *testing.T) {
	m := processtest.NewManager(t)
	t.Setenv("NOTIFY_SOCKET", m.Path)
	t.Setenv("WATCHDOG_USEC", "20000")
	t.Setenv("WATCHDOG_PID", "")
	store := &stuckStore{}
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	e, err := engine.Open(t.Context(), store, engine.Settings{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var pinging sync.WaitGroup
	pinging.Go(func() { lifecycle.PingWatchdog(ctx, e.TakeLocks, log) })
	defer pinging.Wait()
	defer cancel()
	pings := func() int { return strings.Count(m.String(), "\nWATCHDOG=1") }
	m.Await("WATCHDOG=1", 3)
	store.lock.Lock()
	for store.asked.Load() == 0 { // once stuck, it has sent all earlier pings
		time.Sleep(time.Millisecond)
	}
	m.Hear("STUCK=1")
	before := pings()
	time.Sleep(200 * time.Millisecond) // ten pings
	if after := pings(); after != before {
		t.Errorf("%d pings while the filter was stuck", after-before)
	}
	store.lock.Unlock()
	m.Await("WATCHDOG=1", before+2)
}

// Delays by a dead Redis or a waiting archive are shown in the status, and are no reason to die.
func TestStatusSaysWhyNotReady(t *testing.T) {
	t.Parallel()
	m := processtest.NewManager(t)
	nobody := testserver.Free(t)
	p := processtest.Begin(t, t.TempDir(), append(m.Env(), "WATCHDOG_USEC=200000", "URIFILTER_MONGODB_URI=mongodb://"+nobody+"/?serverSelectionTimeoutMS=200"))
	m.Await("STATUS=Serving http://"+p.Addr+", NOT READY: ", 1)
	m.Await("WATCHDOG=1", 5)
}
