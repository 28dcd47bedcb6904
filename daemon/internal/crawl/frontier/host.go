package frontier

import (
	"container/heap"
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

// buffered is how many entries of a host are read at once.
const buffered = 16

// host is the state of a host in memory. The frontier's mu guards it.
type host struct {
	id       int64 // 0: it has no row yet
	name     string
	next     time.Time // of its next turn
	held     time.Time // until then nothing is requested, whatever turns were reserved before
	delay    time.Duration
	away     map[string]absence       // origins that cannot be had now. Other ports of the host may answer.
	wants    map[string]time.Duration // Crawl-delays by origin
	inflight int                      // leases whose request is there
	coming   int                      // leases that wait to be
	stored   int64

	head     *Entry    // the first that can be leased, while the host is in a heap
	due      entryHeap // those that failed, and whose time has come
	buf      []*Entry  // the first queued ones, in order
	complete bool      // there are no more after them

	in   *hostHeap
	at   int
	wake time.Time // when it leaves the heap of waiting hosts
}

// absence is how long an origin is left alone.
type absence struct {
	until time.Time
	last  bool // the crawl may end without it
}

// hostNamed returns the host of a name, and makes it if it is unknown. mu is held.
func (f *Frontier) hostNamed(name string) *host {
	h := f.hosts[name]
	if h == nil {
		h = &host{name: name, delay: f.opt.Delay}
		f.hosts[name] = h
	}
	return h
}

// turn reserves the host's next turn, not before a time, and returns how far away it is. mu is held.
func (h *host) turn(now, earliest time.Time) time.Duration {
	at := slices.MaxFunc([]time.Time{now, earliest, h.next}, time.Time.Compare)
	h.next = at.Add(h.delay)
	return at.Sub(now)
}

// untilTurn waits for a reserved turn.
func (f *Frontier) untilTurn(ctx context.Context, d time.Duration) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if d <= 0 {
		return nil
	}
	return pause(ctx, nil, d)
}

// hold puts off the next turn of a host. mu is held.
func (h *host) hold(until time.Time) {
	if until.After(h.next) {
		h.next = until
	}
	if until.After(h.held) {
		h.held = until
	}
}

// Turn waits until a host may be called for something else, such as its robots.txt.
func (f *Frontier) Turn(ctx context.Context, name string) error {
	for {
		f.mu.Lock()
		h := f.hostNamed(name)
		wait := h.turn(f.opt.Now(), time.Time{})
		f.place(h)
		f.mu.Unlock()
		if err := f.untilTurn(ctx, wait); err != nil {
			return err
		}
		f.mu.Lock()
		held := h.held.After(f.opt.Now()) // since it was reserved
		f.mu.Unlock()
		if !held {
			return nil
		}
	}
}

// Hold stops all requests to a host for a while, also those of the next process: it is saved by the next Settle or Postpone.
func (f *Frontier) Hold(name string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostNamed(name)
	h.hold(f.opt.Now().Add(min(d, LongestPause)))
	f.holds[name] = h.held
	f.place(h)
}

// Delay notes the time that an origin wants between two requests to its host, 0 for none. The longest of all origins of
// the host counts, and at least that of Options.
func (f *Frontier) Delay(name, origin string, d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	h := f.hostNamed(name)
	if h.wants == nil {
		h.wants = map[string]time.Duration{}
	}
	h.wants[origin] = d
	h.delay = max(f.opt.Delay, slices.Max(slices.Collect(maps.Values(h.wants))))
}

// Postpone gives a lease back because its host cannot be had: the URI is queued as before, without an
// attempt, and nothing is leased of its origin for a while; of its host if Strict. With last, which is no matter of
// Strict, Lease returns ErrDone if nothing else is left; the URIs of the origin stay in the queue.
func (f *Frontier) Postpone(l *Lease, d time.Duration, last bool) {
	f.mu.Lock()
	if until := f.opt.Now().Add(d); last || !f.opt.Strict {
		if l.host.away == nil {
			l.host.away = map[string]absence{}
		}
		l.host.away[l.Origin()] = absence{until, last}
		l.host.reread()
	} else {
		l.host.hold(until)
	}
	unsaved := len(f.holds) > 0
	f.mu.Unlock()
	if unsaved {
		f.change(nil, Result{}) // an error ends the frontier
	}
	f.Abandon(l)
}

// refill reads the first entries of a host that may be leased. mu is held.
func (f *Frontier) refill(h *host) error {
	limit := buffered + len(f.inflight) + len(f.claimed)
	if len(h.away) > 0 {
		limit += 1000
	}
	h.buf, h.complete = h.buf[:0], false
	depth, id := -1, int64(0) // of the last one
	for len(h.buf) == 0 && !h.complete {
		n := 0
		if err := sqlitefile.Each(context.Background(), f.read, func(rows *sql.Rows) error {
			e := &Entry{Host: h.name, host: h}
			var key []byte
			if err := rows.Scan(&e.ID, &key, &e.URI, &e.Depth, &e.Referrer); err != nil {
				return err
			}
			n++
			depth, id = e.Depth, e.ID
			if e.Key = Key(key); !f.taken(e.Key) && !h.isAway(e) {
				h.buf = append(h.buf, e)
			}
			return nil
		}, `SELECT u.id, u.key, u.uri, u.depth, coalesce(r.uri, '')
			FROM uris u LEFT JOIN uris r ON r.id = u.referrer
			WHERE u.host = ? AND u.state = 0 AND (u.depth, u.id) > (?, ?) ORDER BY u.depth, u.id LIMIT ?`, h.id, depth, id, limit); err != nil {
			return err
		}
		h.complete = n < limit
	}
	return nil
}

// isAway reports whether the origin of an entry cannot be had. mu is held.
func (h *host) isAway(e *Entry) bool {
	_, away := h.away[e.Origin()]
	return away
}

func (f *Frontier) taken(key Key) bool { return f.inflight[key] != nil || f.claimed[key] != nil }

// insert adds an entry that was committed as queued. mu is held.
func (h *host) insert(e *Entry) {
	at, there := slices.BinarySearchFunc(h.buf, e, (*Entry).compare)
	if there || h.isAway(e) || at == len(h.buf) && !h.complete {
		return // it will be read later
	}
	h.buf = slices.Insert(h.buf, at, e)
	if len(h.buf) > 4*buffered {
		h.buf, h.complete = h.buf[:2*buffered], false
	}
}

// reread discards the entries read for a host. mu is held.
func (h *host) reread() { h.buf, h.complete = nil, false }

// first returns the first entry of a host, nil if there is none. mu is held.
func (f *Frontier) first(h *host) (*Entry, error) {
	for len(h.buf) > 0 && f.taken(h.buf[0].Key) { // by a redirect
		h.buf = h.buf[1:]
	}
	if len(h.buf) == 0 && !h.complete && h.id != 0 {
		if err := f.refill(h); err != nil {
			return nil, err
		}
	}
	e := h.due.top()
	for ; e != nil && (f.later[e.Key] != e || f.taken(e.Key) || h.isAway(e)); e = h.due.top() {
		heap.Pop(&h.due)
		switch {
		case f.later[e.Key] != e:
		case f.taken(e.Key):
			delete(f.later, e.Key)
		default:
			e.after = h.away[e.Origin()].until
			heap.Push(&f.retries, e)
		}
	}
	if len(h.buf) > 0 && (e == nil || h.buf[0].before(e)) {
		e = h.buf[0]
	}
	return e, nil
}

// full reports whether a host may have no further page. mu is held.
func (f *Frontier) full(h *host) bool {
	return f.opt.MaxPerHost > 0 && h.stored+int64(h.inflight+h.coming) >= f.opt.MaxPerHost
}

// place puts a host into the heap where it belongs: ready hosts, waiting hosts, or neither. mu
// is held.
func (f *Frontier) place(h *host) {
	h.leave()
	if f.opt.PerHost > 0 && h.inflight+h.coming >= f.opt.PerHost || f.full(h) {
		return
	}
	now := f.opt.Now()
	for origin, a := range h.away {
		if !a.until.After(now) {
			delete(h.away, origin)
			h.reread()
		}
	}
	var err error
	if h.head, err = f.first(h); err != nil {
		f.fail(err)
		return
	}
	h.wake = h.next
	switch {
	case h.head == nil && len(h.away) == 0:
	case h.head == nil:
		h.wake = slices.MinFunc(slices.Collect(maps.Values(h.away)), func(a, b absence) int { return a.until.Compare(b.until) }).until
		heap.Push(&f.waiting, h)
	case h.next.After(now) && !f.opt.Strict:
		heap.Push(&f.waiting, h)
	default:
		heap.Push(&f.ready, h)
	}
}

// popEntry removes the first entry of a host. mu is held.
func (f *Frontier) popEntry(h *host) *Entry {
	e := h.head
	if len(h.buf) > 0 && h.buf[0] == e {
		h.buf = h.buf[1:]
	} else {
		heap.Pop(&h.due)
		delete(f.later, e.Key)
	}
	return e
}

// hostHeap orders hosts by their first entry, or by the time of their next turn.
type hostHeap struct {
	all    []*host
	byTime bool
}

func (h *hostHeap) Len() int { return len(h.all) }
func (h *hostHeap) Swap(i, j int) {
	h.all[i], h.all[j] = h.all[j], h.all[i]
	h.all[i].at, h.all[j].at = i, j
}
func (h *hostHeap) Push(x any) {
	one := x.(*host)
	one.at, one.in = len(h.all), h
	h.all = append(h.all, one)
}
func (h *hostHeap) Less(i, j int) bool {
	a, b := h.all[i], h.all[j]
	if h.byTime {
		return a.wake.Before(b.wake)
	}
	return a.head.before(b.head)
}
func (h *hostHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all[len(h.all)-1] = nil
	h.all = h.all[:len(h.all)-1]
	last.in = nil
	return last
}

func (h *hostHeap) top() *host {
	if len(h.all) == 0 {
		return nil
	}
	return h.all[0]
}

// leave removes a host from the heap that it is in.
func (h *host) leave() {
	if h.in != nil {
		heap.Remove(h.in, h.at)
	}
}
