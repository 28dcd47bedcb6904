// Package budget bounds a resource that many requests share, such as memory. It never waits:
// if nothing is available, it says so.
package budget

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// Budget holds the size of the resource, and how much of it is used. It is safe for
// concurrent use.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// New makes an unused budget.
func New(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n, unless that would exceed the limit.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n of what was taken.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used returns what was taken and not yet returned.
func (b *Budget) Used() int64 { return b.used.Load() }

// shareOfFree is how many times what is then still free a holder may have. Alone it gets three
// quarters, one of two three sevenths, and the next one that comes always finds room.
const shareOfFree = 3

// Holder is for whom something is taken: a token, and the address that its caller has. Empty, or
// invalid: they are not told apart, and have no share.
type Holder struct {
	Token   string
	Address netip.Addr
}

// Shared is a Budget that is shared out: a token has at most three times what is free for others,
// and so does an address (a dynamic threshold: Choudhury and Hahne, 1998), so that no caller can
// keep all others out. It is safe for concurrent use.
type Shared struct {
	limit int64

	mu   sync.Mutex
	used int64
	by   map[Holder]int64 // of tokens and addresses, each with the other one empty
}

// NewShared makes an unused budget.
func NewShared(limit int64) *Shared { return &Shared{limit: limit, by: map[Holder]int64{}} }

// Take reserves n for a holder, unless that would exceed the limit, or the holder's share. own is
// what the same call has taken before: a call that is the only one of its holder needs no share,
// so that whatever fits the limit can be had.
func (b *Shared) Take(h Holder, n, own int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	free := b.limit - b.used - n
	if free < 0 {
		return false
	}
	for _, part := range h.parts() {
		if has := b.by[part]; part != (Holder{}) && has > own && has+n > shareOfFree*free {
			return false
		}
	}
	b.add(h, n)
	return true
}

// Give returns n of what was taken for a holder.
func (b *Shared) Give(h Holder, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(h, -n)
}

func (b *Shared) add(h Holder, n int64) {
	b.used += n
	for _, part := range h.parts() {
		if has := b.by[part] + n; has != 0 && part != (Holder{}) {
			b.by[part] = has
		} else {
			delete(b.by, part)
		}
	}
}

func (h Holder) parts() [2]Holder { return [2]Holder{{Token: h.Token}, {Address: h.Address}} }

// Used returns what was taken and not yet returned.
func (b *Shared) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.used
}
