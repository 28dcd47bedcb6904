package fleet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// Ctrl-C comes while a command runs on a and b waits for its batch; the undoing of a is quick.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	a, b := newLocal(t, "a"), newLocal(t, "b")
	s := &scene{}
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	mark := filepath.Join(t.TempDir(), "mark")
	one := undone{s.change("a", "one", nil), func(ctx context.Context, h host.Host, cause error) (string, error) {
		if ctx.Err() != nil || !errors.Is(cause, context.Canceled) {
			t.Errorf("undo: context %v, cause %v", ctx.Err(), cause)
		}
		if a.isFree(t) {
			t.Error("undo without the lock")
		}
		_, err := h.Run(ctx, host.Command{Script: "echo undone >" + host.Quote(mark)})
		return "took it back", err
	}}
	sleeps := step.NewWish("sleeps", func(_ context.Context, h host.Host) (*step.Change, error) {
		return &step.Change{Summary: "sleep", Apply: func(ctx context.Context) error {
			ctrlC()
			_, err := h.Run(ctx, host.Command{Script: "sleep 1000"})
			return err
		}}, nil
	})

	o := locking(s, "alice")
	o.Canary, o.Runs, o.Again = 1, t.TempDir(), "mage deploy -resume"
	sum, err := Run(ctx, []Phase{{Name: "p", Rolling: true, Jobs: []Job{on(a, one, sleeps), on(b, s.change("b", "x", nil))}}}, o)
	wantCode(t, err, CodeInterrupted)
	wantStatuses(t, sum, "a interrupted", "b not started")
	if text, _ := os.ReadFile(mark); string(text) != "undone\n" {
		t.Errorf("undo wrote %q", text)
	}
	if !a.isFree(t) || !b.isFree(t) {
		t.Error("a lock was not given back")
	}
	last := s.events[len(s.events)-1]
	if last.Kind != report.RunEnded || last.Summary.Code != CodeInterrupted || last.Summary.Next != o.Again {
		t.Errorf("last event: %+v", last)
	}
}

// Neither an undoing that does not end nor a step that waits for the host regardless of its
// context keeps the run from ending within its grace period.
func TestInterruptBoundsTheUndoing(t *testing.T) {
	t.Parallel()
	a, b := newLocal(t, "a"), newLocal(t, "b")
	s := &scene{}
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	one := undone{s.change("a", "one", nil), func(ctx context.Context, h host.Host, _ error) (string, error) {
		_, err := h.Run(ctx, host.Command{Script: "sleep 1000"})
		return "", err
	}}
	deaf := func(on string, then func()) step.Step {
		return step.NewWish("deaf", func(_ context.Context, h host.Host) (*step.Change, error) {
			return &step.Change{Summary: "sleep", Apply: func(ctx context.Context) error {
				then()
				_, err := h.Run(context.WithoutCancel(ctx), host.Command{Script: "sleep 1000"})
				return err
			}}, nil
		})
	}
	o := locking(s, "alice")
	o.Grace = 800 * time.Millisecond
	// The interrupt comes when both hosts are in their second step.
	bIsThere := make(chan struct{})
	begin := time.Now()
	waits := s.change("a", "two", func(ctx context.Context) error {
		<-bIsThere
		ctrlC()
		<-ctx.Done()
		return ctx.Err()
	})
	sum, err := Run(ctx, []Phase{{Name: "p", Jobs: []Job{on(a, one, waits), on(b, deaf("b", func() { close(bIsThere) }))}}}, o)
	t.Logf("took %v", time.Since(begin))
	wantCode(t, err, CodeInterrupted)
	for _, r := range sum.Results {
		if r.Step == "undo one" && !strings.Contains(r.Err.Error(), "not finished in time") {
			t.Errorf("undo: %+v", r)
		}
	}
	if got := sum.Hosts[1].Status; got != report.Unreachable {
		t.Errorf("b: %s", got)
	}
	for !a.isFree(t) || !b.isFree(t) {
		time.Sleep(10 * time.Millisecond)
	}
}

func TestInterruptBeforeAnything(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	s := &scene{}
	ctx, ctrlC := context.WithCancel(t.Context())
	ctrlC()
	sum, err := Run(ctx, []Phase{{Name: "p", Jobs: []Job{on(a, s.change("a", "x", nil))}}}, locking(s, "alice"))
	wantCode(t, err, CodeInterrupted)
	s.wantLog(t)
	if got := sum.Hosts[0].Status; got != report.NotStarted {
		t.Errorf("a: %s", got)
	}
}

// A Ctrl-C that comes when all the work is done has no effect.
func TestInterruptAfterTheWork(t *testing.T) {
	t.Parallel()
	a := newLocal(t, "a")
	s := &scene{}
	ctx, ctrlC := context.WithCancel(t.Context())
	defer ctrlC()
	last := step.NewProof("last", func(context.Context, host.Host) error { ctrlC(); return nil })
	sum, err := Run(ctx, []Phase{{Name: "p", Jobs: []Job{on(a, last)}}}, locking(s, "alice"))
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a ok")
}
