package sqlite

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest"
)

func victimProcess(dir, name string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), victimDir+"="+dir, victimName+"="+name, victimShared+"=1")
	return cmd
}

// A process that shares is let in beside others that share, and no other process is.
func TestSharedFolder(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	one := open(t, Options{Dir: dir, Shared: true})
	job, err := one.AddJob(ctx, download.Job{Name: "news", On: true, Setting: download.Setting{Lane: download.Normal}})
	if err != nil {
		t.Fatal(err)
	}
	if held, err := one.Hold(ctx, "a", []string{"role"}, 1e12); err != nil || len(held) != 1 {
		t.Fatal(held, err)
	}
	two := open(t, Options{Dir: dir, Shared: true, EndLeases: true})
	if held, err := two.Hold(ctx, "b", []string{"role"}, 1e12); err != nil || len(held) != 0 {
		t.Errorf("held %q, %v: a process that came later has ended the lease of one that lives", held, err)
	}
	if _, err := Open(ctx, Options{Dir: dir}); !errors.As(err, new(*disk.InUseError)) {
		t.Errorf("one that wants the folder alone: %v", err)
	}
	// If one process changes a job, the writer of the other knows it.
	task := []download.NewTask{{URI: "https://x/1"}}
	if _, err := two.AddTasks(ctx, job.ID, task); err != nil {
		t.Fatal(err)
	}
	if err := one.SwitchJob(ctx, "news", false); err != nil {
		t.Fatal(err)
	}
	if tasks, err := two.HandOut(ctx, job.ID, 1, 0, 1e12); err != nil || len(tasks) != 0 {
		t.Errorf("%v, %v: handed out of a job that is off", tasks, err)
	}
	if err := one.DropJob(ctx, "news"); err != nil {
		t.Fatal(err)
	}
	if _, err := two.AddTasks(ctx, job.ID, task); !errors.Is(err, download.ErrNoJob) {
		t.Errorf("%v: want that the job does not exist", err)
	}
	if err := errors.Join(one.Close(), two.Close()); err != nil {
		t.Fatal(err)
	}
	alone := open(t, Options{Dir: dir})
	if _, err := Open(ctx, Options{Dir: dir, Shared: true}); !errors.As(err, new(*disk.InUseError)) {
		t.Errorf("one that shares, beside one that does not: %v", err)
	}
	if err := alone.Close(); err != nil {
		t.Fatal(err)
	}
	// After all have gone, the first to open ends the leases of the dead.
	three := open(t, Options{Dir: dir, Shared: true, EndLeases: true})
	if held, err := three.Hold(ctx, "c", []string{"role"}, 1e12); err != nil || len(held) != 1 {
		t.Errorf("held %q, %v: want the role of the dead", held, err)
	}
}

// A stop while another process opens the folder ends the wait as any stop does: it is no failure.
func TestStopWhileAnotherOpensTheFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	other, err := disk.AcquireLock(filepath.Join(dir, startName))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Release() //nolint:errcheck // nothing was written
	ctx, stop := context.WithCancelCause(t.Context())
	stop(errors.New("stopped by a signal"))
	if _, err := Open(ctx, Options{Dir: dir, Shared: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want the end of the context", err)
	}
}

// A sweep leaves the file of a body that another process is about to store, and removes it once its
// lease has gone.
func TestSweepLeavesBodiesUnderWay(t *testing.T) {
	t.Parallel()
	ctx, dir := context.Background(), t.TempDir()
	clock := downloadtest.NewClock()
	s := open(t, Options{Dir: dir, Shared: true, Inline: 10, Now: clock.Now})
	job, err := s.AddJob(ctx, download.Job{Name: "news", On: true, Setting: download.Setting{Lane: download.Normal, MaxAttempts: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.AddTasks(ctx, job.ID, []download.NewTask{{URI: "https://x/1"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.HandOut(ctx, job.ID, 1, 0, 1e12); err != nil {
		t.Fatal(err)
	}
	leases, err := s.Lease(ctx, download.Want{Owner: "a", Max: 1, For: 1e12, Shards: []int{0}, Lanes: []download.Lane{download.Normal}})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	body, err := s.bodies.readBody(ctx, leases[0].Task, strings.NewReader(strings.Repeat("x", 100)), 10)
	if err != nil {
		t.Fatal(err)
	}
	path := s.bodies.path(body.file)
	other := open(t, Options{Dir: dir, Shared: true, Now: clock.Now})
	for i, want := range []bool{true, true, false} {
		if i == 2 {
			if err := s.GiveBack(ctx, leases[0], clock.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := other.Sweep(ctx, 0); err != nil {
			t.Fatal(err)
		}
		if there, err := exists(path); err != nil || there != want {
			t.Errorf("after sweep %d: the file is there: %t, %v, want %t", i+1, there, err, want)
		}
	}
}

// A sweep that is interrupted leaves what it has not looked at to the next one.
func TestInterruptedSweepOfBodies(t *testing.T) {
	t.Parallel()
	b := &bodies{dir: t.TempDir(), swept: true}
	for _, file := range []string{"ab/ab01-1-x", "ab/ab02-1-x", "ab/ab03-1-x"} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(b.path(file)), 0o700), os.WriteFile(b.path(file), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		b.suspect(file)
	}
	stop := errors.New("stop")
	for _, answer := range []error{stop, nil} {
		if err := b.sweep(t.Context(), func(context.Context, string) (named, leased bool, err error) { return false, false, answer }); !errors.Is(err, answer) {
			t.Errorf("got %v, want %v", err, answer)
		}
	}
	if left, err := os.ReadDir(filepath.Join(b.dir, "ab")); err != nil || len(left) > 0 {
		t.Errorf("%d files are left, %v", len(left), err)
	}
}

// Two processes that share the folder are killed together, again and again: what was acknowledged
// to either is there, no task was settled twice, and the counts are right.
func TestTwoProcessesKilledAtAnyMoment(t *testing.T)       { killShared(t, 4) }
func TestSystemTwoProcessesKilledAtAnyMoment(t *testing.T) { killShared(t, 20) }

func killShared(t *testing.T, rounds int) {
	t.Parallel()
	dir := t.TempDir()
	clock := downloadtest.NewClock()
	var beside *exec.Cmd
	kill := func() {
		if beside != nil {
			_ = beside.Process.Kill()
			_ = beside.Wait()
			beside = nil
		}
	}
	defer kill()
	open := func() download.Store {
		kill()
		s, err := Open(context.Background(), Options{Dir: dir, Inline: inline, Now: clock.Now, Shared: true})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	var told bytes.Buffer
	downloadtest.Kills(t, rounds, clock, open, func(name string) *exec.Cmd {
		beside = victimProcess(dir, "beside-"+name)
		beside.Stdout = &told
		if err := beside.Start(); err != nil {
			t.Fatal(err)
		}
		return victimProcess(dir, name)
	})
	if n := bytes.Count(told.Bytes(), []byte("done ")); n < rounds {
		t.Errorf("the second processes settled %d tasks in %d rounds: nothing was tried", n, rounds)
	}
	s := open().(*Store)
	defer s.Close()
	var check string
	if err := s.read.QueryRow("PRAGMA integrity_check").Scan(&check); err != nil || check != "ok" {
		t.Errorf("integrity: %s, %v", check, err)
	}
}
