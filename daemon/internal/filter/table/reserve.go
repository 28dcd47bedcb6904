package table

import "github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"

// If a change concerns a reservation, the value that goes with its key to OnChange's function
// has one of these in the first byte of Hi, which is 0 in all other values. An entry describes
// its key completely, whatever other entries say. The last entry of a key counts.
const (
	tagReservation = iota + 1 // not a key, but an id: when it was made (Hi), when it ends (Lo)
	tagHeld                   // until when (Hi), Lo of the reservation (Lo)
	tagCommitted              // until when it is seen (Hi), Lo of the reservation (Lo)
	tagReleased               // when (Hi), Lo of the reservation (Lo)
	tagClock                  // not for a key: the time (Hi)
)

const tagShift = 56

func tagged(tag uint64, at int64, lo uint64) bloom.Hash {
	return bloom.Hash{Hi: tag<<tagShift | uint64(at)&(1<<tagShift-1), Lo: lo}
}

// Take gives the keys that are neither seen at the time now nor reserved to the reservation id,
// for lease milliseconds by the time of Leases. fresh[i] says whether keys[i] was given; of equal
// keys the first is. It returns how many were given, and how many others have reserved. A known
// id keeps its end, and the keys that it holds are fresh again. OnChange gets as many keys as
// were taken, plus one.
func (t *Table) Take(id bloom.Hash, keys []bloom.Hash, now, lease int64, fresh []bool) (taken, others int) {
	_ = fresh[:len(keys)]
	g := t.group(keys)
	defer t.scratch.Put(g)
	s := &t.leases
	take := taking{id: id, made: s.now(), lease: lease}
	take.end = take.made + lease
	ticks := t.ticks(now)
	for l := range t.lock {
		t.takeGroup(l, g, fresh, ticks, &take)
	}
	return take.taken, take.others
}

// taking is one Take.
type taking struct {
	id               bloom.Hash
	r                *reservation // nil: nothing is taken
	call             uint32
	made, end, lease int64
	taken, others    int
}

// join makes the call take keys for r, which this call or an earlier identical one has made.
func (k *taking) join(r *reservation) {
	k.r, k.end = r, r.end
	r.calls++
	k.call = r.calls
}

// takeGroup takes the keys of one lock.
func (t *Table) takeGroup(l int, g *group, fresh []bool, now uint64, take *taking) {
	g.entries = g.entries[:0]
	keys, order := g.of(l)
	if len(order) == 0 {
		return
	}
	s := &t.leases
	t.lock[l].Lock()
	defer t.lock[l].Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r := s.of[take.id.Lo]; {
	case r == nil: // or forgotten meanwhile
		take.r, take.end = nil, take.made+take.lease
	case r != take.r: // also if the call is made twice at the same time
		take.join(r)
	}
	for n, key := range keys {
		i := order[n]
		fresh[i] = false
		if _, until := t.parts[key.Hi>>56].find(t.shape.split(key)); until > now {
			continue
		}
		h, is := t.held[l][key]
		switch {
		case is && h.id == take.id.Lo && take.r != nil && take.r.id == take.id: // of this call, or an earlier identical one
			if k := take.r.keys[key]; k.call != take.call {
				take.r.keys[key] = keyState{take.call, k.state}
				fresh[i] = true
				take.taken++
			}
			continue
		// The first is about to be forgotten. The last is another's; with random ids it occurs once in 2^64 years.
		case is && h.id == take.id.Lo, is && h.end > take.made, take.r != nil && take.r.id != take.id:
			take.others++
			continue
		}
		if take.r == nil {
			take.join(s.open(take.id, take.made, take.end))
			g.entries = append(g.entries, take.id, tagged(tagReservation, take.made, uint64(take.end)))
		}
		t.hold(key, hold{take.id.Lo, take.end})
		s.set(take.r, key, keyState{take.call, Held})
		fresh[i] = true
		take.taken++
		g.entries = append(g.entries, key, tagged(tagHeld, take.end, take.id.Lo))
	}
	if len(g.entries) > 0 && t.onChange != nil {
		t.onChange(g.entries)
	}
}

// Settled is the outcome for the keys of a Commit or Release: equal keys that are done count
// once.
type Settled struct{ Done, Lost int }

// Commit adds keys that a reservation holds, to be seen until a time; lost[i] says that
// keys[i] is none of them. Keys that it has already committed count as done. The bool is false
// if the reservation is unknown. OnChange gets as many keys as are done, plus one. After an
// error, which means that the system refused memory, some keys have been added.
func (t *Table) Commit(id bloom.Hash, keys []bloom.Hash, now, until int64, lost []bool) (Settled, bool, error) {
	return t.settle(id, keys, lost, settling{to: Committed, now: t.ticks(now), until: t.ticks(until)})
}

// Release makes keys that a reservation holds new, as Commit makes them seen.
func (t *Table) Release(id bloom.Hash, keys []bloom.Hash, lost []bool) (Settled, bool) {
	result, known, _ := t.settle(id, keys, lost, settling{to: Released})
	return result, known
}

// settling is one Commit or Release.
type settling struct {
	r          *reservation
	to         State
	now, until uint64
	at         int64 // by the time of Leases
	call       uint32
	told       bool // OnChange knows at
	Settled
}

func (t *Table) settle(id bloom.Hash, keys []bloom.Hash, lost []bool, w settling) (Settled, bool, error) {
	s := &t.leases
	w.at = s.now()
	s.mu.Lock()
	if w.r = s.get(id); w.r == nil {
		s.mu.Unlock()
		return Settled{}, false, nil
	}
	w.r.calls++
	w.call = w.r.calls
	s.mu.Unlock()
	g := t.group(keys)
	defer t.scratch.Put(g)
	for l := range t.lock {
		if err := t.settleGroup(l, g, lost, &w); err != nil {
			return w.Settled, true, err
		}
	}
	return w.Settled, true, nil
}

// settleGroup settles the keys of one lock.
func (t *Table) settleGroup(l int, g *group, lost []bool, w *settling) error {
	g.entries = g.entries[:0]
	keys, order := g.of(l)
	if len(order) == 0 {
		return nil
	}
	s := &t.leases
	t.lock[l].Lock()
	defer t.lock[l].Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, key := range keys {
		i := order[n]
		k, known := w.r.keys[key]
		if k.state == Held && t.held[l][key].id != w.r.id.Lo {
			k.state = Lost
			s.set(w.r, key, k)
		}
		if lost[i] = !known || k.state != Held && k.state != w.to; lost[i] {
			w.Lost++
			continue
		}
		if k.state == Held {
			if err := t.settleKey(g, key, w); err != nil {
				return err
			}
		}
		if k.call != w.call {
			w.Done++
		}
		s.set(w.r, key, keyState{w.call, w.to})
	}
	s.settled(w.r)
	if len(g.entries) > 0 && t.onChange != nil {
		t.onChange(g.entries)
	}
	return nil
}

// settleKey settles a key held by the reservation.
func (t *Table) settleKey(g *group, key bloom.Hash, w *settling) error {
	if !w.told {
		w.told = true
		g.entries = append(g.entries, bloom.Hash{}, tagged(tagClock, w.at, 0))
	}
	if w.to == Released {
		t.unhold(key)
		g.entries = append(g.entries, key, tagged(tagReleased, w.at, w.r.id.Lo))
		return nil
	}
	p := &t.parts[key.Hi>>56]
	hi, lo := t.shape.split(key)
	at, was := p.find(hi, lo)
	if err := p.set(at, was, hi, lo, w.until, w.now); err != nil {
		return err
	}
	t.unhold(key)
	g.entries = append(g.entries, key, tagged(tagCommitted, t.origin+int64(w.until), w.r.id.Lo))
	return nil
}
