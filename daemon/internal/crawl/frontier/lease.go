package frontier

import (
	"container/heap"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

// Lease is a URI that one thread fetches. It ends with Settle or Abandon.
type Lease struct {
	Entry
	claims []claim
	at     *host // where it has a place, of the PerHost; nil: nowhere
}

// claim is the target of a redirect that is fetched under a lease.
type claim struct {
	key  Key
	host *host
}

// wake makes all callers that wait in Lease check again. mu is held.
func (f *Frontier) wake() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// fail ends the frontier: nothing is leased or committed any more. mu is held.
func (f *Frontier) fail(err error) {
	if f.failed == nil {
		f.failed = err
		f.wake()
	}
}

// Lease waits for a URI that may be fetched now: a page is still wanted, and it is its host's
// turn. It returns ErrDone when there will be none, but for hosts that cannot be had, see Postpone.
func (f *Frontier) Lease(ctx context.Context) (*Lease, error) {
	for {
		l, changed, wait, err := f.tryLease()
		switch {
		case err != nil:
			return nil, err
		case l != nil:
			if err := f.untilTurn(ctx, wait); err != nil {
				f.Abandon(l)
				return nil, err
			}
			return l, nil
		}
		if err := pause(ctx, changed, wait); err != nil {
			return nil, err
		}
	}
}

// pause waits for a change, or for that long; 0: without limit.
func pause(ctx context.Context, changed <-chan struct{}, d time.Duration) error {
	var timer <-chan time.Time
	if d > 0 {
		timer = time.After(d)
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-changed:
	case <-timer:
	}
	return nil
}

// tryLease returns a lease and how far away its turn is; or no lease, and what to wait for.
func (f *Frontier) tryLease() (_ *Lease, changed <-chan struct{}, wait time.Duration, _ error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.failed != nil:
		return nil, nil, 0, f.failed
	case f.closed:
		return nil, nil, 0, errors.New("the frontier is closed")
	case f.state.Counts.Stored >= f.opt.MaxPages:
		return nil, nil, 0, ErrDone
	case f.state.Counts.Stored+int64(len(f.inflight)) >= f.opt.MaxPages, f.opt.Strict && len(f.inflight) > 0:
		return nil, f.changed, 0, nil
	}
	now := f.opt.Now()
	f.comeDue(now)
	for h := f.ready.top(); h != nil && f.failed == nil; h = f.ready.top() {
		if f.taken(h.head.Key) { // under another spelling of its host
			f.place(h)
			continue
		}
		e := f.popEntry(h)
		wait := h.turn(now, e.after)
		h.inflight++
		l := &Lease{Entry: *e, at: h}
		f.inflight[e.Key] = l
		f.place(h)
		return l, nil, wait, nil
	}
	if f.failed != nil {
		return nil, nil, 0, f.failed
	}
	if len(f.inflight) == 0 && f.onlyAway() {
		return nil, nil, 0, ErrDone
	}
	var next time.Time
	if h := f.waiting.top(); h != nil {
		next = h.wake
	}
	if e := f.retries.top(); e != nil && (next.IsZero() || e.after.Before(next)) {
		next = e.after
	}
	if !next.IsZero() {
		return nil, f.changed, max(next.Sub(now), time.Millisecond), nil
	}
	return nil, f.changed, 0, nil
}

// onlyAway reports whether nothing is left but URIs of origins without which the crawl may end. mu is held.
func (f *Frontier) onlyAway() bool {
	return !slices.ContainsFunc(f.waiting.all, func(h *host) bool {
		return h.head != nil || slices.ContainsFunc(slices.Collect(maps.Values(h.away)), func(a absence) bool { return !a.last })
	}) && !slices.ContainsFunc(f.retries.all, func(e *Entry) bool { return !e.host.away[e.Origin()].last })
}

// comeDue moves entries that have waited long enough. mu is held.
func (f *Frontier) comeDue(now time.Time) {
	for e := f.retries.top(); e != nil && !e.after.After(now); e = f.retries.top() {
		heap.Pop(&f.retries)
		heap.Push(&e.host.due, e)
		f.place(e.host)
	}
	for h := f.waiting.top(); h != nil && !h.wake.After(now); h = f.waiting.top() {
		f.place(h)
	}
}

// Claim asks whether the target of a redirect may be fetched under a lease: nobody has stored it, is
// fetching it, or may get it from elsewhere. A claimed URI is leased to nobody else until the lease ends.
func (f *Frontier) Claim(ctx context.Context, l *Lease, uri, hostName string) (bool, error) {
	f.mu.Lock()
	key := f.keyLocked(uri)
	if key == l.Key || slices.ContainsFunc(l.claims, func(c claim) bool { return c.key == key }) {
		f.mu.Unlock()
		return true, nil
	}
	h := f.hostNamed(hostName)
	if f.taken(key) || h != l.at && f.full(h) {
		f.mu.Unlock()
		return false, nil
	}
	f.claimed[key] = l
	l.claims = append(l.claims, claim{key, h})
	err := f.move(ctx, l, h)
	f.mu.Unlock()
	if err != nil {
		return false, err
	}

	// The committed state stays valid: nobody else settles a claimed URI.
	var state int
	err = f.read.QueryRowContext(ctx, "SELECT state FROM uris WHERE key = ?", key[:]).Scan(&state)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		if f.opt.Filter == nil || !f.opt.Shared {
			return true, nil
		}
		news, err := f.opt.Filter.Check(ctx, []string{uri})
		if err != nil {
			return false, fmt.Errorf("filter: %w", err)
		}
		return news[0], nil
	case err != nil:
		return false, err
	}
	return state == queued || state == waiting || state == failed, nil
}

// move has a lease leave the host that has redirected it, and wait for a place at the next one. It has none meanwhile, so that
// hosts which redirect to each other do not wait for each other; URIs of the next host are leased after it. mu is held.
func (f *Frontier) move(ctx context.Context, l *Lease, to *host) error {
	if l.at == to {
		return nil
	}
	f.leave(l)
	f.wake()
	to.coming++
	for f.opt.PerHost > 0 && to.inflight >= f.opt.PerHost {
		changed := f.changed
		f.mu.Unlock()
		err := pause(ctx, changed, 0)
		f.mu.Lock()
		if err != nil {
			to.coming--
			f.place(to)
			return err
		}
	}
	to.coming--
	to.inflight++
	l.at = to
	f.place(to)
	return nil
}

// leave gives up the place of a lease. mu is held.
func (f *Frontier) leave(l *Lease) {
	if l.at != nil {
		l.at.inflight--
		f.place(l.at)
		l.at = nil
	}
}

// Abandon gives a lease back: its URI is queued as before.
func (f *Frontier) Abandon(l *Lease) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.inflight, l.Key)
	f.leave(l)
	f.requeue(l.Key)
	f.endClaims(l)
	f.place(l.host)
	f.wake()
}

// endClaims releases the targets of redirects. mu is held.
func (f *Frontier) endClaims(l *Lease) {
	for _, c := range l.claims {
		delete(f.claimed, c.key)
		c.host.reread() // entries that were read may be stored by now
		f.requeue(c.key)
		f.place(c.host)
	}
	l.claims = nil
}

// requeue makes a URI that was taken leasable, if it is still queued. mu is held.
func (f *Frontier) requeue(key Key) {
	err := f.eachEntry(context.Background(), func(e *Entry, state int) {
		switch state {
		case queued:
			e.host.reread()
		case waiting:
			f.retry(e)
		}
	}, "u.key = ?", key[:])
	if err != nil {
		f.fail(err)
	}
}

// retry makes an entry wait for its time. mu is held.
func (f *Frontier) retry(e *Entry) {
	if f.later[e.Key] != nil {
		return
	}
	f.later[e.Key] = e
	if f.opt.Strict {
		heap.Push(&e.host.due, e)
		return
	}
	heap.Push(&f.retries, e)
}

const entryQuery = `SELECT u.id, u.key, u.uri, h.name, u.depth, coalesce(r.uri, ''), u.attempts, u.not_before, u.state
	FROM uris u JOIN hosts h ON h.id = u.host LEFT JOIN uris r ON r.id = u.referrer WHERE `

// eachEntry reads entries with their states. mu is held.
func (f *Frontier) eachEntry(ctx context.Context, each func(e *Entry, state int), where string, args ...any) error {
	return sqlitefile.Each(ctx, f.read, func(rows *sql.Rows) error {
		e := &Entry{}
		var key []byte
		var notBefore int64
		var state int
		if err := rows.Scan(&e.ID, &key, &e.URI, &e.Host, &e.Depth, &e.Referrer, &e.Attempts, &notBefore, &state); err != nil {
			return err
		}
		e.Key, e.host, e.after = Key(key), f.hostNamed(e.Host), f.saved(notBefore)
		each(e, state)
		return nil
	}, entryQuery+where, args...)
}

func (f *Frontier) keyLocked(uri string) Key {
	return keyOf(f.names.Append(nil, []byte(uri), f.opt.Rule))
}
