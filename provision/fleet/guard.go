package fleet

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/provision/report"
)

// takeLock locks the host for the run.
func (m *member) takeLock(ctx context.Context) {
	began := time.Now()
	m.run.emit(report.Event{Kind: report.StepBegan, Host: m.name, Step: "lock"})
	r := Result{Step: "lock", Status: report.OK}
	if r.Err = m.acquire(ctx); r.Err != nil {
		r.Status = statusOf(ctx, m, r.Err)
	}
	r.Took = time.Since(began)
	m.told(r)
}

func (m *member) acquire(ctx context.Context) error {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	l, err := acquire(ctx, conn, LockPath, LockInfo{Who: m.run.o.Who, What: m.run.o.Target, Run: m.run.o.ID}, m.lost)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.lock, m.loss = l, nil
	m.mu.Unlock()
	return nil
}

// lost ends what is under way on the host: another run may have it now.
func (m *member) lost(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loss = err
	if m.cancel != nil {
		m.cancel(err)
	}
}

// guard gives a context that ends when the lock is lost.
func (m *member) guard(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cancel = cancel
	if m.loss != nil {
		cancel(m.loss)
	}
	return ctx, func() {
		m.mu.Lock()
		m.cancel = nil
		m.mu.Unlock()
		cancel(nil)
	}
}
