package fleet

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// on returns a job for a local host.
func on(h *local, steps ...step.Step) Job {
	j := job(h.name, steps...)
	j.Connect = h.connect
	return j
}

func locking(s *scene, who string) Options {
	return Options{Target: "deploy", Who: who, Sink: s}
}

func TestTwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	a, b := newLocal(t, "a"), newLocal(t, "b")
	first, second := &scene{}, &scene{}
	working, goOn := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		_, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{on(b, first.change("b", "x", func(context.Context) error {
			close(working)
			<-goOn
			return nil
		}))}}}, locking(first, "alice@laptop"))
		ended <- err
	}()
	<-working

	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{on(a, second.change("a", "x", nil)), on(b, second.change("b", "x", nil))}}},
		locking(second, "bob@desk"))
	wantCode(t, err, CodeLocked)
	wantStatuses(t, sum, "a not started", "b failed")
	second.wantLog(t)
	want := regexp.MustCompile(`^locked by alice@laptop( \(from \S+\))? since 20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ \(\d+s\): deploy, run 20\S+\nhint: wait until it has ended; .* or at once by .kill \d+. as root on b$`)
	if !want.MatchString(sum.Hosts[1].Error) {
		t.Errorf("refusal: %s", sum.Hosts[1].Error)
	}
	if !a.isFree(t) || b.isFree(t) {
		t.Errorf("free: a %v, b %v, want true and false", a.isFree(t), b.isFree(t))
	}

	// A plan takes no lock and is not stopped by one.
	o := locking(second, "bob@desk")
	o.Plan = true
	if _, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{on(b, second.change("b", "x", nil))}}}, o); err != nil {
		t.Errorf("plan: %v", err)
	}

	close(goOn)
	wantCode(t, <-ended, CodeDone)
	if !b.isFree(t) {
		t.Error("the lock was not given back")
	}
	if content, _ := os.ReadFile(b.lockFile()); len(content) > 0 {
		t.Errorf("left in the lock: %s", content)
	}
	if info, _ := os.Stat(b.lockFile()); info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v: others could take the lock", info.Mode())
	}
}

func TestWhatIsLeftInTheFileIsNoLock(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	if err := os.WriteFile(a.lockFile(), []byte("who=ghost\nnonce=x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &scene{}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{on(a, s.change("a", "x", nil))}}}, locking(s, "it's me; $(id)"))
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a changed")
}

func TestLockEndsWithTheConnection(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	conn, closer, _ := a.connect(t.Context())
	lost := make(chan error, 1)
	l, err := acquire(t.Context(), conn, LockInfo{Who: "alice"}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	if a.isFree(t) {
		t.Fatal("not locked")
	}
	closer.Close()
	var cut *host.ConnectionError
	if err := <-lost; !errors.Is(err, errLockLost) || !errors.As(err, &cut) {
		t.Errorf("lost: %v", err)
	}
	l.release(t.Context(), time.Second)
	for !a.isFree(t) { // ends when the host's process has ended
		time.Sleep(10 * time.Millisecond)
	}
}

// A laptop that sleeps leaves its connection open and sends nothing.
func TestLockEndsWithoutASignOfLife(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	conn, closer, _ := a.connect(t.Context())
	defer closer.Close()
	silent, w := io.Pipe()
	defer w.Close()
	_, err := conn.Run(t.Context(), host.Command{Script: holdScript(host.LockPath, LockInfo{Who: "alice", silence: 1}, "n"), Stdin: silent})
	if err != nil || !a.isFree(t) {
		t.Errorf("%v, free %v", err, a.isFree(t))
	}
}

func TestLostLockStopsTheHostAndUndoesNothing(t *testing.T) {
	t.Parallel()
	a, b := newLocal(t, "a"), newLocal(t, "b")
	s := &scene{}
	steals := s.change("a", "two", func(ctx context.Context) error {
		content, err := os.ReadFile(a.lockFile())
		if err != nil {
			return err
		}
		pid := regexp.MustCompile(`(?m)^pid=(\d+)$`).FindSubmatch(content)
		if pid == nil {
			return errors.New("no pid in " + string(content))
		}
		if err := exec.Command("kill", string(pid[1])).Run(); err != nil {
			return err
		}
		<-ctx.Done()
		return ctx.Err()
	})
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{
		on(a, s.change("a", "one", nil), steals, s.change("a", "three", nil)), on(b, s.change("b", "x", nil)),
	}}}, locking(s, "alice"))
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed", "b changed")
	if s.happened("undo a one") || s.happened("a three") {
		t.Errorf("done without the lock: %q", s.log)
	}
	if !strings.HasPrefix(sum.Hosts[0].Error, "lock lost: ") {
		t.Errorf("error: %s", sum.Hosts[0].Error)
	}
	last := sum.Results[len(sum.Results)-1]
	if last.Step != "undo" || last.Status != report.Failed || !strings.Contains(last.Err.Error(), "nothing was undone: lock lost") {
		t.Errorf("last result: %+v", last)
	}
}

func TestMissingFlockIsTold(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	conn, closer, _ := a.connect(t.Context())
	defer closer.Close()
	without := pathless{conn}
	_, err := acquire(t.Context(), without, LockInfo{}, func(error) {})
	if err == nil || !strings.Contains(err.Error(), "flock") {
		t.Errorf("error: %v", err)
	}
}

// pathless is a host on which flock cannot be found.
type pathless struct{ host.Host }

func (h pathless) Run(ctx context.Context, c host.Command) (host.Output, error) {
	c.Script = "flock() { echo 'flock: not found' >&2; return 127; }\n" + c.Script
	return h.Host.Run(ctx, c)
}

// The connection is lost in the middle of a step; the undoing reconnects and gets the lock again
// before the host has noticed that the old connection is dead.
func TestUndoAfterALostConnectionIsUnderTheLock(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	s := &scene{}
	var conns []io.Closer
	one := undone{s.change("a", "one", nil), func(context.Context, host.Host, error) (string, error) {
		if a.isFree(t) {
			t.Error("undone without the lock")
		}
		s.did("undo a one")
		return "", nil
	}}
	j := on(a, one, s.change("a", "two", func(context.Context) error {
		conns[0].Close()
		return &host.ConnectionError{Host: "a", Err: io.ErrUnexpectedEOF}
	}))
	j.Connect = func(ctx context.Context) (host.Host, io.Closer, error) {
		h, c, err := a.connect(ctx)
		conns = append(conns, c)
		return h, c, err
	}
	sum, err := Run(t.Context(), []Phase{{Name: "p", Jobs: []Job{j}}}, locking(s, "alice"))
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a unreachable")
	s.wantLog(t, "a one", "a two", "undo a two", "undo a one")
	if len(conns) != 2 || !a.isFree(t) {
		t.Errorf("%d connections, free %v", len(conns), a.isFree(t))
	}
}
