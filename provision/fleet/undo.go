package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// undo reverts the steps in begun, last first. If the connection is lost, it
// reconnects once.
func (m *member) undo(ctx context.Context, phase string, begun []step.Undoer, cause error) {
	if len(begun) == 0 {
		return
	}
	ctx, end := m.run.undoTime(ctx)
	defer end()
	if err := m.prepareUndo(ctx, cause); err != nil {
		m.record(Result{Phase: phase, Step: "undo", undo: true, Status: m.connectStatus(ctx, err), Err: fmt.Errorf(
			"nothing was undone: %w\nhint: look at the host, then run the target again: it starts from the present state; a daemon that was started and not confirmed goes back by itself", err)})
		return
	}
	for i := len(begun) - 1; i >= 0; i-- {
		s, began := begun[i], time.Now()
		r := Result{Phase: phase, Step: "undo " + s.Title(), undo: true, Status: report.Undone}
		m.run.emit(report.Event{Kind: report.StepBegan, Phase: phase, Host: m.name, Step: r.Step})
		r.Detail, r.Err = m.undoStep(m.run.voice(m, phase)(ctx, r.Step), phase, s, cause)
		switch {
		case r.Err != nil:
			r.Status = report.Failed
		case r.Detail == "":
			r.Status = report.OK // nothing had to be brought back
		}
		r.Took = time.Since(began)
		m.record(r)
	}
}

func (m *member) undoStep(ctx context.Context, phase string, s step.Undoer, cause error) (did string, err error) {
	defer recovered(&err)
	did, err = s.Undo(ctx, m.host(phase), cause)
	// When the time is over, all connections are closed soon after: either may end the step first.
	if err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)) {
		err = fmt.Errorf("not finished in time: %w\nhint: look at the host, then run the target again: it starts from the present state", err)
	}
	return did, err
}

// prepareUndo makes sure that the host is connected and locked by us.
func (m *member) prepareUndo(ctx context.Context, cause error) error {
	m.mu.Lock()
	loss, l := m.loss, m.lock
	m.mu.Unlock()
	if cut, is := errors.AsType[*host.ConnectionError](cause); !is || cut.Host != "" && cut.Host != m.name {
		return loss
	}
	conn, closer, err := m.connect(m.run.voice(m, "")(ctx, "undo"))
	if err != nil {
		return err
	}
	m.mu.Lock()
	old := m.closer
	m.conn, m.closer, m.lock = conn, closer, nil
	m.mu.Unlock()
	if l != nil {
		l.release(ctx, 0)
	}
	closeQuietly(old)
	return m.relock(ctx)
}

// relock waits for the lock that our lost connection may still hold: the host gives
// it up a minute after the last keepalive.
func (m *member) relock(ctx context.Context) error {
	if m.run.o.NoLock {
		return nil
	}
	for {
		err := m.acquire(ctx)
		if held, is := errors.AsType[*LockedError](err); !is || held.Run != m.run.o.ID {
			return err
		}
		step.Say(m.run.voice(m, "")(ctx, "undo"), "waiting until the host gives up the lock of the lost connection")
		if host.Sleep(ctx, 2*time.Second) != nil {
			return err
		}
	}
}

func closeQuietly(c io.Closer) {
	if c != nil {
		_ = c.Close() // what it was used for is over
	}
}

// undoTime returns a context with the time for undoing. It ends early if the run is
// interrupted, before or during the undoing.
func (r *run) undoTime(ctx context.Context) (context.Context, func()) {
	undoing, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.o.UndoTime)
	unwatch := context.AfterFunc(r.hurry, cancel)
	return undoing, func() {
		unwatch()
		cancel()
	}
}

// reserve is what is kept of the grace after the undoing, and again after the locks.
func (r *run) reserve() time.Duration { return r.o.Grace / 8 }

// timekeeper divides the grace of an interrupted run: first the undoing has to end, then
// all connections are closed, so that whatever still waits for a host comes back. It
// returns what ends the watching.
func (r *run) timekeeper(ctx context.Context) (stop func()) {
	hurry, end := context.WithCancel(context.WithoutCancel(ctx))
	r.hurry = hurry
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-done:
			return
		case <-ctx.Done():
		}
		interrupted := time.Now()
		if !within(done, time.Until(interrupted.Add(r.o.Grace-2*r.reserve()))) {
			return
		}
		end()
		if !within(done, time.Until(interrupted.Add(r.o.Grace-r.reserve()))) {
			return
		}
		for _, m := range r.members {
			m.disconnect()
		}
	}()
	return func() {
		close(done)
		<-ended
		end()
	}
}

// within waits for d. It returns false if done is closed first.
func within(done <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

func (m *member) disconnect() {
	m.mu.Lock()
	c := m.closer
	m.closer = nil
	m.mu.Unlock()
	closeQuietly(c)
}
