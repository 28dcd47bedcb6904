// Package budget divides the memory of this machine that mirrors may take, redis.mirror_bytes,
// among the filters of a daemon. It knows no mirror, only how large they are.
package budget

import (
	"math"
	"sync"
)

// Unbounded is what the mirror of an exact filter gets if there is no bound. Bit-maps are
// mirrored whole then.
const Unbounded = 64 << 20

// Budget is safe for concurrent use.
type Budget struct {
	bytes      uint64
	exactBytes uint64

	mu     sync.Mutex
	whole  uint64 // taken by bit-maps that are mirrored whole
	parts  map[*Part]bool
	weight uint64 // of all bit-maps that are not
	exact  uint64 // filters without a bit-map
}

// New returns the budget of a daemon; bytes 0: without a bound. An exact filter gets exactBytes at
// most; 0: no such bound.
func New(bytes, exactBytes uint64) *Budget {
	if exactBytes == 0 {
		exactBytes = math.MaxUint64
	}
	return &Budget{bytes: bytes, exactBytes: exactBytes, parts: map[*Part]bool{}}
}

// Bounded reports whether there is a bound.
func (b *Budget) Bounded() bool { return b.bytes > 0 }

// TakeWhole reports whether a bit-map may be mirrored whole: small ones are, as long as an eighth
// of the budget is left for the others. GiveWhole gives back what was taken.
func (b *Budget) TakeWhole(bytes uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.fits(bytes) {
		return false
	}
	b.whole += bytes
	b.divide()
	return true
}

// Fits reports what TakeWhole would, at present.
func (b *Budget) Fits(bytes uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.fits(bytes)
}

// fits is Fits; mu is held.
func (b *Budget) fits(bytes uint64) bool {
	return !b.Bounded() || b.whole+bytes <= b.bytes-b.bytes/8
}

// GiveWhole gives back what TakeWhole has taken.
func (b *Budget) GiveWhole(bytes uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.whole -= bytes
	b.divide()
}

// Part is what a mirror that is not whole has.
type Part struct {
	of     *Budget
	weight uint64
	resize func(bytes uint64)
}

// BitMap returns the part of a bit-map of weight bytes, and Exact that of a filter without one.
// What is left by the bit-maps that are mirrored whole is divided evenly: one share for each
// exact filter, and one for all other bit-maps together, which divide it in proportion to their
// sizes. resize is called at once, and whenever others come or go; it must not call the budget.
func (b *Budget) BitMap(weight uint64, resize func(bytes uint64)) *Part {
	return b.join(&Part{b, max(weight, 1), resize})
}

// Exact is described at BitMap.
func (b *Budget) Exact(resize func(bytes uint64)) *Part { return b.join(&Part{b, 0, resize}) }

func (b *Budget) join(p *Part) *Part {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.parts[p] = true
	b.weight += p.weight
	if p.weight == 0 {
		b.exact++
	}
	b.divide()
	return p
}

// Leave gives the part to the others. It may be called twice.
func (p *Part) Leave() {
	b := p.of
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.parts[p] {
		return
	}
	delete(b.parts, p)
	b.weight -= p.weight
	if p.weight == 0 {
		b.exact--
	}
	b.divide()
}

// divide tells every part how much it has; mu is held.
func (b *Budget) divide() {
	if !b.Bounded() {
		for p := range b.parts {
			p.resize(min(Unbounded, b.exactBytes))
		}
		return
	}
	shares := b.exact
	if b.weight > 0 {
		shares++
	}
	for p := range b.parts {
		share := (b.bytes - b.whole) / shares
		if p.weight > 0 {
			share = uint64(float64(share) * (float64(p.weight) / float64(b.weight)))
		} else {
			share = min(share, b.exactBytes)
		}
		p.resize(share)
	}
}
