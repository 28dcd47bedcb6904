package table

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Reservation is a reservation in the form for files: when it was made and when it ends, and the
// states of its keys.
type Reservation struct {
	ID        bloom.Hash
	Made, End int64
	Keys      []ReservedKey
}

// ReservedKey is a key of a Reservation.
type ReservedKey struct {
	Key   bloom.Hash
	State State
}

// EachReservation calls f with every known reservation. They include all that OnChange got before
// the call.
func (t *Table) EachReservation(f func(Reservation) error) error {
	s := &t.leases
	s.mu.Lock()
	all := make([]*reservation, 0, len(s.of))
	for _, r := range s.of {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		s.mu.Lock()
		keys := make([]ReservedKey, 0, len(r.keys))
		for key, k := range r.keys {
			keys = append(keys, ReservedKey{key, k.state})
		}
		s.mu.Unlock()
		for i, k := range keys {
			if k.State == Held && !t.holds(r, k.Key) {
				keys[i].State = Lost
			}
		}
		if err := f(Reservation{r.id, r.made, r.end, keys}); err != nil {
			return err
		}
	}
	return nil
}

func (t *Table) holds(r *reservation, key bloom.Hash) bool {
	l := &t.lock[key.Hi>>56/share]
	l.RLock()
	defer l.RUnlock()
	return t.held[key.Hi>>56/share][key].id == r.id.Lo
}

// Restore adds a part of a reservation from a file. It must not run concurrently with other calls.
func (t *Table) Restore(part Reservation) error {
	s := &t.leases
	r := s.of[part.ID.Lo]
	if r == nil {
		r = s.open(part.ID, part.Made, part.End)
	}
	for _, k := range part.Keys {
		if k.State < Held || k.State > Lost {
			return fmt.Errorf("%w: a reserved item is in the state %d", bloom.ErrCorrupt, k.State)
		}
		s.set(r, k.Key, keyState{0, k.State})
		if k.State == Held {
			t.hold(k.Key, hold{r.id.Lo, r.end})
		}
	}
	s.settled(r)
	return nil
}

// Apply replays what OnChange got, in the same order: pairs of a key and its value. It calls
// clock with the recorded times. It must not run concurrently with other calls.
func (t *Table) Apply(entries []bloom.Hash, now func() int64, clock func(int64)) error {
	if t.loading {
		t.leaveFree(replayRoom)
	}
	if t.shape.lo == 0 {
		entries = unpack(entries)
	}
	for ; len(entries) > 1; entries = entries[2:] {
		key, what := entries[0], entries[1]
		at := int64(what.Hi & (1<<tagShift - 1))
		tag := what.Hi >> tagShift
		switch tag {
		case 0:
			clock(int64(what.Lo))
			if err := t.Put(now(), Entry{key, at}); err != nil {
				return err
			}
			continue
		case tagClock:
			clock(at)
			continue
		case tagReservation:
			clock(at)
			if t.leases.of[key.Lo] == nil {
				t.leases.open(key, at, int64(what.Lo))
			}
			continue
		}
		if err := t.applyReserved(tag, key, at, what.Lo, now()); err != nil {
			return err
		}
	}
	return nil
}

// applyReserved applies an entry of a reservation's key, whatever the table has for that key.
func (t *Table) applyReserved(tag uint64, key bloom.Hash, at int64, id uint64, now int64) error {
	var state State
	until := at
	switch tag {
	case tagHeld:
		state, until = Held, now // it was not seen
	case tagCommitted:
		state = Committed
	case tagReleased:
		state, until = Released, now
	default:
		return fmt.Errorf("journal: an entry of the sort %d: this version knows none; use a newer urifilter", tag)
	}
	if err := t.Put(now, Entry{key, until}); err != nil { // ends the hold, too
		return err
	}
	s := &t.leases
	r := s.of[id]
	if state == Held {
		if r == nil { // its beginning is lost, and with it its id
			r = s.open(bloom.Hash{Lo: id}, at, at)
		}
		t.hold(key, hold{id, at})
	}
	if r != nil {
		s.set(r, key, keyState{0, state})
		s.settled(r)
	}
	return nil
}
