package fleet

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
)

// lockAll locks the hosts one after the other, in an order that is the same for all runs,
// whatever their inventories call the hosts, and stops at the first that another run
// holds. So one of several runs that begin at once gets all of its locks: each refused run is
// refused by a run that holds a later host than any of its own. It reports whether the phases
// may begin.
func (r *run) lockAll(ctx context.Context) bool {
	members := r.ableMembers()
	r.each(members, func(m *member) { m.identify(ctx) })
	slices.SortStableFunc(members, func(a, b *member) int {
		return cmp.Or(strings.Compare(a.machine, b.machine), strings.Compare(a.name, b.name))
	})
	for _, m := range members {
		if m.takeLock(ctx); !r.mayGoOn(ctx) {
			return false
		}
	}
	return true
}

// identify asks a host for its machine id. A host without one is ordered by its name.
func (m *member) identify(ctx context.Context) {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	if out, err := conn.Run(ctx, host.Command{Script: "cat /etc/machine-id 2>/dev/null || :"}); err == nil {
		m.machine = strings.TrimSpace(out.Stdout)
	}
}

// takeLock locks the host for the run.
func (m *member) takeLock(ctx context.Context) {
	began := time.Now()
	m.memo.forget() // another run may have changed the host before it was ours
	m.run.emit(report.Event{Kind: report.StepBegan, Host: m.name, Step: "lock"})
	r := Result{Step: "lock", Status: report.OK}
	if r.Err = m.acquire(ctx); r.Err != nil {
		r.Status = statusOf(ctx, m, r.Err)
	}
	r.Took = time.Since(began)
	m.record(r)
}

func (m *member) acquire(ctx context.Context) error {
	m.mu.Lock()
	conn := m.conn
	m.mu.Unlock()
	l, err := acquire(ctx, conn, LockInfo{Who: m.run.o.Who, What: m.run.o.Target, Run: m.run.o.ID}, m.lost)
	if err != nil {
		return err
	}
	m.mu.Lock()
	m.lock, m.loss = l, nil
	m.mu.Unlock()
	return nil
}

// lost ends the work on the host: another run may hold it now.
func (m *member) lost(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loss = err
	if m.cancel != nil {
		m.cancel(err)
	}
}

// guard returns a context that ends when the lock is lost.
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
