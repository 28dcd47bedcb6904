package table

import (
	"container/heap"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// hold says which reservation has a key, and until when. After its end it stays, so that its
// reservation can commit, until another takes the key or the reservation is forgotten.
type hold struct {
	id  uint64 // Lo of the reservation
	end int64
}

// State is the state of a key of a reservation.
type State uint8

const (
	Held State = iota + 1
	Committed
	Released
	Lost // another took it, or it was forgotten
)

// reservation holds the keys that one Take has taken. It is known for a while after its end, so
// that a repeated call gets the same answer.
type reservation struct {
	id        bloom.Hash
	made, end int64
	goes      int64 // when it is forgotten
	at        int   // its place in leases.due
	keys      map[bloom.Hash]keyState
	held      int    // keys that are Held, some of which may be lost: the hold of a key decides
	calls     uint32 // for keyState.call
}

type keyState struct {
	call  uint32 // the last call that has counted the key; each counts it once
	state State
}

// leases are the reservations of a table. Its lock is taken after those of parts.
type leases struct {
	now  func() int64 // in milliseconds; it never goes back
	kept int64        // how long a reservation is known after its last key is settled
	// The estimated memory of reservations.
	bytes atomic.Int64

	mu  sync.Mutex
	of  map[uint64]*reservation // by Lo of their ids
	due departures              // the same, each once
}

// The memory of a reservation, of each of its keys, and of a hold: on average a quarter of a
// map's room is free, and maps grow by doubling.
const (
	reservationBytes = 400
	keyBytesTaken    = 48
	holdBytes        = 64
)

// Leases prepares an empty table for reservations: now returns the time in milliseconds, and kept
// is the least time that a reservation is known after its end.
func (t *Table) Leases(now func() int64, kept time.Duration) {
	t.leases.now, t.leases.kept = now, kept.Milliseconds()
	t.leases.of = map[uint64]*reservation{}
}

// Reservations returns how many reservations are known.
func (t *Table) Reservations() int {
	t.leases.mu.Lock()
	defer t.leases.mu.Unlock()
	return len(t.leases.of)
}

// Reserved returns the keys of a reservation, except those in the state but.
func (t *Table) Reserved(id bloom.Hash, but State) (keys []bloom.Hash) {
	t.leases.mu.Lock()
	defer t.leases.mu.Unlock()
	if r := t.leases.get(id); r != nil {
		for key, k := range r.keys {
			if k.state != but {
				keys = append(keys, key)
			}
		}
	}
	return keys
}

// get returns a reservation, nil if it is unknown; the caller holds mu.
func (s *leases) get(id bloom.Hash) *reservation {
	if r := s.of[id.Lo]; r != nil && r.id == id {
		return r
	}
	return nil
}

// open makes a reservation; the caller holds mu.
func (s *leases) open(id bloom.Hash, made, end int64) *reservation {
	r := &reservation{id: id, made: made, end: end, keys: map[bloom.Hash]keyState{}}
	r.goes = s.until(r)
	s.of[id.Lo] = r
	s.bytes.Add(reservationBytes)
	heap.Push(&s.due, r)
	return r
}

// until returns when a reservation that holds keys is forgotten.
func (s *leases) until(r *reservation) int64 { return r.end + max(r.end-r.made, s.kept) }

// leave sets when a reservation is forgotten; the caller holds mu.
func (s *leases) leave(r *reservation, at int64) {
	r.goes = at
	heap.Fix(&s.due, r.at)
}

// set sets the state of a key; the caller holds mu.
func (s *leases) set(r *reservation, key bloom.Hash, now keyState) {
	was, known := r.keys[key]
	if !known {
		s.bytes.Add(keyBytesTaken)
	}
	if was.state == Held {
		r.held--
	}
	if now.state == Held {
		r.held++
		if at := s.until(r); r.goes < at {
			s.leave(r, at)
		}
	}
	r.keys[key] = now
}

// settled lets a reservation without held keys be forgotten sooner; the caller holds mu.
func (s *leases) settled(r *reservation) {
	if at := s.now() + s.kept; r.held == 0 && at < r.goes {
		s.leave(r, at)
	}
}

// departed removes and returns the reservations that are forgotten by now.
func (s *leases) departed(now int64) (gone []*reservation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.due) > 0 && s.due[0].goes <= now {
		r := heap.Pop(&s.due).(*reservation)
		if s.of[r.id.Lo] == r { // no other one with the same half of an id
			delete(s.of, r.id.Lo)
		}
		s.bytes.Add(-reservationBytes - int64(len(r.keys))*keyBytesTaken)
		gone = append(gone, r)
	}
	return gone
}

// departures is a heap of reservations, the first to be forgotten on top.
type departures []*reservation

func (d departures) Len() int           { return len(d) }
func (d departures) Less(i, j int) bool { return d[i].goes < d[j].goes }
func (d departures) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].at, d[j].at = i, j
}
func (d *departures) Push(x any) {
	r := x.(*reservation)
	r.at = len(*d)
	*d = append(*d, r)
}
func (d *departures) Pop() any {
	last := len(*d) - 1
	r := (*d)[last]
	(*d)[last] = nil // so that it is freed
	*d = (*d)[:last]
	return r
}

// reserved reports whether an unseen key has a running lease. The caller holds the lock of its
// part.
func (t *Table) reserved(key bloom.Hash) bool {
	h, is := t.held[key.Hi>>56/share][key]
	return is && h.end > t.leases.now()
}

// hold gives a key to a reservation, even if another had it; unhold ends the hold, and reports
// whether there was one. The caller holds the lock of the key's part.
func (t *Table) hold(key bloom.Hash, h hold) {
	of := &t.held[key.Hi>>56/share]
	if *of == nil {
		*of = map[bloom.Hash]hold{}
	}
	if _, was := (*of)[key]; !was {
		t.leases.bytes.Add(holdBytes)
	}
	(*of)[key] = h
}

func (t *Table) unhold(key bloom.Hash) bool {
	of := &t.held[key.Hi>>56/share]
	if _, was := (*of)[key]; !was {
		return false
	}
	t.leases.bytes.Add(-holdBytes)
	if delete(*of, key); len(*of) == 0 {
		*of = nil // a map never frees its memory
	}
	return true
}

// SweepLeases forgets reservations that ended long ago.
func (t *Table) SweepLeases() {
	if t.leases.now == nil {
		return
	}
	for _, r := range t.leases.departed(t.leases.now()) {
		for key, k := range r.keys {
			if k.state == Held {
				t.letGo(r, key)
			}
		}
	}
}

func (t *Table) letGo(r *reservation, key bloom.Hash) {
	l := &t.lock[key.Hi>>56/share]
	l.Lock()
	defer l.Unlock()
	if t.held[key.Hi>>56/share][key].id == r.id.Lo {
		t.unhold(key)
	}
}
