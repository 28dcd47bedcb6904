package scaling

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
)

// A chain is a list of Bloom filters, the layers, of which only the last one is added to. When it
// has as many items as it was made for, a further layer is made, expansion times as large and with
// half of its error rate, so that the rates of all layers together stay below the one asked for
// (Almeida, Baquero, Preguiça, Hutchison: Scalable Bloom Filters, 2007). Bits are set by double
// hashing (Kirsch, Mitzenmacher: Less Hashing, Same Performance, 2006): bit i of an item is
// (a + i*b) mod bits. All numbers are those of RedisBloom 2, so that its dumps are ours.

// layer is one Bloom filter.
type layer struct {
	bits      mapped.Memory // a multiple of 8; bit n is bit n%8 of byte n/8
	size      uint64        // in bits
	inverse   uint64        // (2^64 - 1) / size
	hashes    uint32        // bits of an item
	errorRate float64       // at capacity
	perItem   float64       // bits of an item, before rounding
	capacity  uint64
	items     uint64 // that were new when they were added
}

// The constants as RedisBloom has them, with 15 digits: more would give other sizes.
const (
	ln2        = 0.693147180559945
	ln2Squared = 0.480453013918201
)

// maxLayerBytes bounds a layer, and a dump that claims to have one.
const maxLayerBytes = 1 << 40

// shape returns an empty layer without its bits, and how many bytes these take.
func shape(capacity uint64, errorRate float64) (l layer, size uint64, err error) {
	l = layer{errorRate: errorRate, capacity: capacity}
	l.perItem = -(math.Log(errorRate) / ln2Squared)
	l.hashes = uint32(math.Ceil(ln2 * l.perItem))
	total := float64(capacity) * l.perItem
	switch {
	case !(total < maxLayerBytes*8):
		return l, 0, fmt.Errorf("%d items at an error rate of %g: too large", capacity, errorRate)
	case total < 1:
		return l, 0, fmt.Errorf("%d items at an error rate of %g: there would be no bits", capacity, errorRate)
	}
	return l, (uint64(total) + 63) / 64 * 8, nil
}

// allocate gives the layer its bits.
func (l *layer) allocate(size uint64) (err error) {
	if l.bits, err = mapped.Allocate(int(size)); err != nil {
		return fmt.Errorf("layer of %d bytes: %w", size, err)
	}
	l.size, l.inverse = size*8, math.MaxUint64/(size*8)
	return nil
}

func (l *layer) has(key bloom.Hash) bool {
	at := key.Hi
	for range l.hashes {
		n := l.place(at)
		if l.bits[n>>3]&(1<<(n&7)) == 0 {
			return false
		}
		at += key.Lo
	}
	return true
}

func (l *layer) add(key bloom.Hash) {
	at := key.Hi
	for range l.hashes {
		n := l.place(at)
		l.bits[n>>3] |= 1 << (n & 7)
		at += key.Lo
	}
	l.items++
}

// fill is the share of bits that are set.
func (l *layer) fill() float64 {
	set := 0
	for b := l.bits; len(b) >= 8; b = b[8:] {
		set += bits.OnesCount64(binary.NativeEndian.Uint64(b))
	}
	return float64(set) / float64(l.size)
}

// free frees the layers' bits: nobody may ask for items any more.
func (c *chain) free() error {
	var errs []error
	for _, l := range c.layers {
		errs = append(errs, l.bits.Free())
		l.bits = nil
	}
	return errors.Join(errs...)
}

// chain is all of a filter's memory. It is not safe for concurrent use.
type chain struct {
	layers    []*layer
	errorRate float64 // of all together, as asked for
	expansion uint64
	fixed     bool // has one layer for ever
}

// newChain makes an empty chain.
func newChain(capacity uint64, errorRate float64, expansion uint64, fixed bool) (*chain, error) {
	c := &chain{errorRate: errorRate, expansion: expansion, fixed: fixed}
	return c, c.grow(capacity)
}

// next is the shape of the layer that would be made now; capacity is that of the first.
func (c *chain) next(capacity uint64) (layer, uint64, error) {
	rate := c.errorRate
	if n := len(c.layers); n > 0 {
		last := c.layers[n-1]
		rate = last.errorRate
		over, product := bits.Mul64(last.capacity, c.expansion)
		if over != 0 {
			return layer{}, 0, fmt.Errorf("%d items, %d times: too large", last.capacity, c.expansion)
		}
		capacity = product
	}
	if !c.fixed {
		rate /= 2
	}
	return shape(capacity, rate)
}

func (c *chain) grow(capacity uint64) error {
	l, size, err := c.next(capacity)
	if err != nil {
		return err
	}
	if err := l.allocate(size); err != nil {
		return err
	}
	c.layers = append(c.layers, &l)
	return nil
}

func (c *chain) last() *layer { return c.layers[len(c.layers)-1] }

// add adds an item that no layer before from has, and reports whether it is new. The error says
// that a layer that is needed cannot be made; the item was not added.
func (c *chain) add(key bloom.Hash, from int) (fresh bool, err error) {
	for _, l := range c.layers[from:] {
		if l.has(key) {
			return false, nil
		}
	}
	if l := c.last(); l.items >= l.capacity && !c.fixed {
		if err := c.grow(0); err != nil {
			return false, err
		}
	}
	c.last().add(key)
	return true, nil
}

func (c *chain) items() (n uint64) {
	for _, l := range c.layers {
		n += l.items
	}
	return n
}

func (c *chain) bytes() (n uint64) {
	for _, l := range c.layers {
		n += l.size / 8
	}
	return n
}

// bytesFor is how many bytes of bits the chain has once n more items were added, if all are new.
// What cannot be made counts as more than any machine has.
func (c *chain) bytesFor(n uint64) uint64 {
	total, last := c.bytes(), *c.last()
	ahead := chain{layers: slices.Clone(c.layers), errorRate: c.errorRate, expansion: c.expansion, fixed: c.fixed}
	for !c.fixed && n > last.capacity-min(last.items, last.capacity) {
		n -= last.capacity - min(last.items, last.capacity)
		l, size, err := ahead.next(0)
		if err != nil {
			return math.MaxInt64
		}
		total, last = total+size, l
		ahead.layers = append(ahead.layers, &l)
	}
	return total
}

// rate estimates the present share of new items that are taken for seen.
func (c *chain) rate() float64 {
	right := 1.0
	for _, l := range c.layers {
		right *= 1 - math.Pow(l.fill(), float64(l.hashes))
	}
	return 1 - right
}
