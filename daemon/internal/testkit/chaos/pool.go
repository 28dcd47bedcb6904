//go:build unix

package chaos

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

const (
	perSecond  = 150     // new items, per second and filter
	window     = 120     // items that all callers ask for at about the same time
	singles    = 1 << 24 // items of large batches are numbered from here
	troubles   = 64
	largeBatch = 9000 // more than travels to Redis in one piece
)

// batch is what one call asks for.
type batch struct {
	filter string
	items  []uint32
}

// key names the filter of a memory in the history.
func (b batch) key(memory int) string { return fmt.Sprintf("%s@%d", b.filter, memory+1) }

func (b batch) expire() time.Duration {
	switch b.filter {
	case forDays:
		return daysExpire
	case forShort:
		return shortExpire
	}
	return 0
}

func (b batch) texts(seed uint64) []string {
	texts := make([]string, len(b.items))
	for i, n := range b.items {
		texts[i] = itemText(seed, n)
	}
	return texts
}

func itemText(seed uint64, n uint32) string {
	return fmt.Sprintf("https://site-%d.example/%d?q=新&of=%d", n%97, n, seed)
}

// pool is what the callers of one memory choose from: mostly items that others ask for at
// the same time, some older items, and, once more, batches that got an error.
type pool struct {
	lasting bool // there is no filter whose items expire
	large   atomic.Uint32

	mu       sync.Mutex
	troubled []batch
}

func (p *pool) trouble(b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.troubled) == troubles {
		p.troubled = p.troubled[1:]
	}
	p.troubled = append(p.troubled, b)
}

func (p *pool) troubledBatch(r *rand.Rand) (batch, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.troubled) == 0 {
		return batch{}, false
	}
	i := r.IntN(len(p.troubled))
	b := p.troubled[i]
	if r.IntN(2) == 0 {
		p.troubled = append(p.troubled[:i:i], p.troubled[i+1:]...)
	}
	return b, true
}

// choose returns the next batch of a caller.
func (p *pool) choose(r *rand.Rand, elapsed time.Duration) batch {
	again, size, kind, large := r.IntN(5) == 0, 1+r.IntN(40), r.IntN(20), r.IntN(150) == 0
	if again {
		if b, ok := p.troubledBatch(r); ok {
			return b
		}
	}
	b := batch{filter: forEver}
	switch {
	case kind < 4:
		b.filter = forDays
	case kind < 8:
		b.filter = forShort
	case kind < 10:
		b.filter = churned
	case kind < 13:
		b.filter = jobs
	case kind < 16:
		b.filter = prints
	}
	if p.lasting && b.filter == forShort {
		b.filter = forEver
	}
	if large && b.filter != churned {
		size = 1000 + r.IntN(largeBatch)
		first := singles + p.large.Add(uint32(size)) - uint32(size)
		for i := range size {
			b.items = append(b.items, first+uint32(i))
		}
		return b
	}
	base := int(elapsed.Seconds() * perSecond)
	taken := map[uint32]bool{}
	for range size {
		n := base + window - r.IntN(2*window)
		if r.IntN(6) == 0 {
			n = r.IntN(base + 1)
		}
		if n = max(n, 0); !taken[uint32(n)] {
			taken[uint32(n)] = true
			b.items = append(b.items, uint32(n))
		}
	}
	return b
}
