package engine

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// More is what calls may add to a set.
type More struct {
	Items, Reserved int
	Documents       int
	IDBytes         int // of the documents together
}

func (m More) plus(o More) More {
	return More{m.Items + o.Items, m.Reserved + o.Reserved, m.Documents + o.Documents, m.IDBytes + o.IDBytes}
}

func (m More) minus(o More) More {
	return More{m.Items - o.Items, m.Reserved - o.Reserved, m.Documents - o.Documents, m.IDBytes - o.IDBytes}
}

// Weighed is a Set that takes memory of this machine.
type Weighed interface {
	Set
	// MemoryFor returns how many bytes the set will take at most once so much was added. It is
	// called before every batch, so it must cost next to nothing.
	MemoryFor(more More) uint64
}

// memory is what all filters of an engine may take of this machine's memory together, with what
// the calls under way may add.
type memory struct {
	limit uint64             // 0: none
	taken func(bytes uint64) // is told of changes; nil: nobody is
	mu    sync.Mutex         // guards the following
	used  uint64             // the sum of all shares
	told  uint64             // what taken heard last
}

// move changes a share from was to now, unless all would exceed the limit then; force: anyway.
func (m *memory) move(was, now uint64, force bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !force && m.limit > 0 && m.used-was+now > m.limit {
		return false
	}
	m.used += now - was
	if diff := max(m.used, m.told) - min(m.used, m.told); m.taken != nil && diff > m.limit/128 {
		m.told = m.used
		m.taken(m.used)
	}
	return true
}

func (m *memory) sum() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.used
}

// share is what one filter has of the memory.
type share struct {
	mu    sync.Mutex
	more  More   // of calls under way
	least uint64 // bytes, when the call under way has ended that takes in what another set has; 0: there is none
	bytes uint64 // with more and least
	ended bool
}

// claim takes memory for what a call may add. The caller calls unclaim afterwards.
func (f *Filter) claim(more More) error { return f.claimAll(more, 0) }

// claimLeast takes memory for a call after which the set has that many bytes at least; there is one such
// call at a time. The caller calls unclaimLeast afterwards.
func (f *Filter) claimLeast(bytes uint64) error {
	if err := f.claimAll(More{}, bytes); err != nil {
		return fmt.Errorf("filter %s: %w", f.Name, err)
	}
	return nil
}

func (f *Filter) claimAll(more More, least uint64) error {
	set, ok := f.Set.(Weighed)
	if !ok {
		return nil
	}
	err := f.tryClaim(set, more, least)
	if err == nil || !err.all {
		return err.orNil()
	}
	f.recount() // others may take less by now
	return f.tryClaim(set, more, least).orNil()
}

func (f *Filter) tryClaim(set Weighed, more More, least uint64) *memoryError {
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	if f.share.ended {
		return nil // the set answers
	}
	all := f.share.more.plus(more)
	least = max(least, f.share.least)
	need := max(set.MemoryFor(all), least)
	_, grows := f.Set.(Growing)
	if grows && f.memoryLimit > 0 && need > f.memoryLimit {
		return &memoryError{need: need, limit: f.memoryLimit, until: whenRoom(f.Set)}
	}
	if !f.memory.move(f.share.bytes, need, false) {
		// What fits into memory that the filter has already is no growth, even beyond the limit.
		if need > set.MemoryFor(More{}) {
			return &memoryError{need: need - f.share.bytes, all: true, used: f.memory.sum(), limit: f.memory.limit, until: whenRoom(f.Set)}
		}
		f.memory.move(f.share.bytes, need, true)
	}
	f.share.bytes, f.share.more, f.share.least = need, all, least
	return nil
}

// claimNew takes memory for a filter that is about to be made. The caller gives it back when that has a share.
func (e *Engine) claimNew(bytes uint64) error {
	if e.memoryLimit > 0 && bytes > e.memoryLimit {
		return &memoryError{need: bytes, limit: e.memoryLimit, until: whenRoom(nil)}
	}
	if e.memory.move(0, bytes, false) {
		return nil
	}
	if e.recount(); !e.memory.move(0, bytes, false) { // others may take less by now
		return &memoryError{need: bytes, all: true, used: e.memory.sum(), limit: e.memory.limit, until: whenRoom(nil)}
	}
	return nil
}

func (f *Filter) unclaim(more More) {
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	f.share.more = f.share.more.minus(more)
}

func (f *Filter) unclaimLeast() {
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	f.share.least = 0
}

// weigh sets the share to what the filter takes.
func (f *Filter) weigh() {
	set, ok := f.Set.(Weighed)
	if !ok {
		return
	}
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	if f.share.ended {
		return
	}
	now := max(set.MemoryFor(f.share.more), f.share.least)
	f.memory.move(f.share.bytes, now, true)
	f.share.bytes = now
}

// leave gives back the share of a filter that is no longer served.
func (f *Filter) leave() {
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	f.memory.move(f.share.bytes, 0, true)
	f.share.bytes, f.share.ended = 0, true
}

// Memory returns how much memory of this machine all filters take, and how much they may; limit 0: any amount.
func (e *Engine) Memory() (used, limit uint64) {
	e.recount()
	return e.memory.sum(), e.memory.limit
}

func (e *Engine) recount() {
	for _, f := range e.Filters() {
		f.weigh()
	}
}

// memoryError says why a call gets no memory.
type memoryError struct {
	need, used, limit uint64
	all               bool // it is the limit of all filters
	until             string
}

func (e *memoryError) orNil() error {
	if e == nil {
		return nil
	}
	return e
}

func (e *memoryError) Error() string {
	if e.all {
		return fmt.Sprintf("it needs %d bytes of memory more, and all filters take %d of the %d that limits.memory_bytes leaves for them; it takes new ones when %s", e.need, e.used, e.limit, e.until)
	}
	return fmt.Sprintf("it would need %d bytes of memory, and limits.filter_bytes is %d; it takes new ones when %s", e.need, e.limit, e.until)
}

func (e *memoryError) Unwrap() error { return ErrFull }

func itemsMore(n int) More { return More{Items: n} }

// claimFor is claim for keys. If there is no memory for all of them, it looks for what they would
// add: without new keys nothing is claimed, and done is true.
func (f *Filter) claimFor(keys []bloom.Hash, fresh []bool, of func(n int) More, has func() error) (claimed More, done bool, err error) {
	claimed = of(len(keys))
	if err = f.claim(claimed); err == nil {
		return claimed, false, nil
	}
	if err := has(); err != nil {
		return More{}, false, err
	}
	n := distinct(keys, fresh)
	if n == 0 {
		return More{}, true, nil
	}
	claimed = of(int(n))
	if err = f.claim(claimed); err != nil {
		return More{}, false, fmt.Errorf("filter %s: %w", f.Name, err)
	}
	return claimed, false, nil
}

// warnAll warns once when the filters come near the limit of all of them.
func (e *Engine) warnAll(log *slog.Logger) {
	e.recount()
	if e.memory.limit == 0 {
		return
	}
	used := e.memory.sum()
	switch percent := float64(used) / float64(e.memory.limit) * 100; {
	case percent >= nearMemory && !e.nearMemory:
		e.nearMemory = true
		all := e.Filters()
		slices.SortFunc(all, func(a, b *Filter) int { return int(b.shareBytes()>>10) - int(a.shareBytes()>>10) })
		log.Warn("filters are near limits.memory_bytes together; at it new items are refused", "bytes", used, "limit", e.memory.limit,
			"largest", all[0].Name, "largest_bytes", all[0].shareBytes())
	case percent < nearMemory/2 && e.nearMemory:
		e.nearMemory = false // the warning may be repeated
	}
}

func (f *Filter) shareBytes() uint64 {
	f.share.mu.Lock()
	defer f.share.mu.Unlock()
	return f.share.bytes
}
