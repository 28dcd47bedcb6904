package exact

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
)

// keptFor is how long at least the mirror keeps what was accepted here: longer than a Redis that
// syncs every second, or a replica that keeps up, needs until it can no longer lose the item.
const keptFor = 10 * time.Second

// mirror has some of the items that Redis has: those that were asked for last. There are two
// tables; when the younger one has half of the bytes, it becomes the older one, and the previous
// older one is dropped. An item that is found in the older one goes into the younger one, so
// items that are asked for again and again stay.
//
// Items that were accepted here are put back when Redis has lost its latest data, so the older
// table is not dropped within keptFor after it took one of them. Meanwhile only such items are
// added, and the mirror may take more than its bytes.
type mirror struct {
	half atomic.Uint64 // of the bytes that it may take
	now  func() time.Time

	asked, found, evicted atomic.Uint64
	both                  atomic.Int64 // items of the older table that are in the younger one, too

	mu         sync.RWMutex // write-held to change which tables there are
	young, old *table.Table
	// When each of the tables took the last item that was accepted here; zero: none.
	youngAccepted, oldAccepted time.Time
}

func newMirror(bytes uint64) *mirror {
	m := &mirror{now: time.Now, young: table.New(), old: table.New()}
	m.Resize(bytes)
	return m
}

// Resize sets how much the mirror may take from now on.
func (m *mirror) Resize(bytes uint64) { m.half.Store(bytes / 2) }

// Has sets isNew for those of keys that the mirror does not have, and aged for those that only
// the older table has.
func (m *mirror) Has(keys []bloom.Hash, isNew, aged []bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.young.Has(keys, table.Still, isNew)
	m.old.Has(keys, table.Still, aged)
	found := 0
	for i := range keys {
		aged[i] = !aged[i] && isNew[i]
		isNew[i] = isNew[i] && !aged[i]
		if !isNew[i] {
			found++
		}
	}
	m.asked.Add(uint64(len(keys)))
	m.found.Add(uint64(found))
}

// Counts returns how many items it was asked for, how many of them it had, and about how many it
// has evicted for later ones.
func (m *mirror) Counts() (asked, found, evicted uint64) {
	return m.asked.Load(), m.found.Load(), m.evicted.Load()
}

// Put adds keys that Redis has; accepted tells that this daemon has added them there. An error is
// the system's, which has no memory: some keys are not in the mirror.
func (m *mirror) Put(keys []bloom.Hash, accepted bool) error {
	if len(keys) == 0 {
		return nil
	}
	var dropped *table.Table
	m.mu.Lock()
	now := m.now()
	if m.young.Memory() >= m.half.Load() {
		switch {
		case now.Sub(m.oldAccepted) >= keptFor:
			dropped = m.old
			m.old, m.oldAccepted = m.young, m.youngAccepted
			m.young, m.youngAccepted = table.New(), time.Time{}
			stay := m.both.Swap(0) + int64(count(keys, dropped, m.old))
			m.evicted.Add(uint64(max(0, int64(dropped.Stats().Items)-stay)))
		case !accepted:
			m.mu.Unlock()
			return nil
		}
	}
	if accepted {
		m.youngAccepted = now
	}
	m.mu.Unlock()
	m.mu.RLock()
	notOld, fresh := make([]bool, len(keys)), make([]bool, len(keys))
	m.old.Has(keys, table.Still, notOld)
	_, err := m.young.Add(keys, table.Still, table.Kept, fresh)
	for i, is := range fresh {
		if is && !notOld[i] {
			m.both.Add(1)
		}
	}
	m.mu.RUnlock()
	if dropped != nil {
		err = errors.Join(err, dropped.Close())
	}
	return err
}

// count returns how many of keys one table has and the other lacks.
func count(keys []bloom.Hash, has, hasNot *table.Table) (n int) {
	isNew, other := make([]bool, len(keys)), make([]bool, len(keys))
	has.Has(keys, table.Still, isNew)
	hasNot.Has(keys, table.Still, other)
	for i := range keys {
		if !isNew[i] && other[i] {
			n++
		}
	}
	return n
}

// Drop removes keys.
func (m *mirror) Drop(keys []bloom.Hash) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	notYoung, notOld := make([]bool, len(keys)), make([]bool, len(keys))
	m.young.Has(keys, table.Still, notYoung)
	m.old.Has(keys, table.Still, notOld)
	for i := range keys {
		if !notYoung[i] && !notOld[i] {
			m.both.Add(-1)
		}
	}
	m.young.Remove(keys, table.Still)
	m.old.Remove(keys, table.Still)
}

// DropGroup removes all items of a group.
func (m *mirror) DropGroup(g int) {
	const share = table.Parts / forgotten.Groups
	for part := g * share; part < (g+1)*share; part++ {
		if keys := m.Part(part, nil); len(keys) > 0 {
			m.Drop(keys)
		}
	}
}

// Part appends the items with one first byte to dst.
func (m *mirror) Part(part int, dst []bloom.Hash) []bloom.Hash {
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, t := range []*table.Table{m.young, m.old} {
		for _, e := range t.Part(part, table.Still, nil) {
			dst = append(dst, e.Key)
		}
	}
	return dst
}

// Memory returns how much of this machine's memory it takes.
func (m *mirror) Memory() uint64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.young.Memory() + m.old.Memory()
}

// Close gives the memory back.
func (m *mirror) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return errors.Join(m.young.Close(), m.old.Close())
}
