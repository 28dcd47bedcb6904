package bloom

import (
	"fmt"
	"math"
	"sync"
)

// Limits of what a bit-map is made for.
const (
	MinErrorRate = 1e-6
	MaxErrorRate = 0.5
	MaxCapacity  = 1 << 40

	maxLoad   = 2048 // items a block: what itemsFromFill makes of the largest map, all ones
	minBlocks = 1024 // 64 KiB: small maps would be at the mercy of chance

	// margin is the share of the error rate that the expected rate at full load may
	// use. The rest covers the spread of a measurement and an overfill of a few
	// per cent; 0.72 gives 25 bits an item for 0.0001.
	margin = 0.72
)

// ValidCapacity returns an error that says what is wrong with a capacity and error rate, or nil.
func ValidCapacity(capacity uint64, errorRate float64) error {
	if capacity < 1 || capacity > MaxCapacity {
		return fmt.Errorf("capacity %d: want 1 to %d items", capacity, uint64(MaxCapacity))
	}
	if !(errorRate >= MinErrorRate && errorRate <= MaxErrorRate) {
		return fmt.Errorf("error rate %v: want %v to %v", errorRate, MinErrorRate, MaxErrorRate)
	}
	return nil
}

// BlocksFor returns the number of 512-bit blocks that keep the false-positive rate
// below errorRate with capacity items in the map, each of which sets bits bits: 8 or 16.
//
// It does not use the classic formula, which assumes that the bits of an item are spread
// over the whole map: here they share a block, blocks fill unevenly (Poisson), and
// the fuller ones answer wrongly more often. See expectedFPR.
func BlocksFor(capacity uint64, errorRate float64, bits int) uint64 {
	return max(minBlocks, uint64(math.Ceil(float64(capacity)/loads.of(errorRate, bits))))
}

// loads caches the items per block by error rate and bits of an item: computing one takes a
// millisecond, and maps that grow need the same sixteen of them.
var loads loadCache

type loadCache struct {
	mu    sync.Mutex
	known map[asked]float64
}

type asked struct {
	errorRate float64
	bits      int
}

const maxLoads = 1024

func (c *loadCache) of(errorRate float64, bits int) float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := asked{errorRate, bits}
	if load, ok := c.known[key]; ok {
		return load
	}
	if len(c.known) == 0 || len(c.known) >= maxLoads {
		c.known = map[asked]float64{}
	}
	load := loadFor(errorRate, bits)
	c.known[key] = load
	return load
}

// loadFor returns how many items a block may have on average.
func loadFor(errorRate float64, bits int) float64 {
	lo, hi := 1e-3, 600.0 // items a block; expectedFPR grows with it
	for range 60 {
		mid := (lo + hi) / 2
		if expectedFPR(mid, bits) > errorRate*margin {
			hi = mid
		} else {
			lo = mid
		}
	}
	return lo
}

// expectedFPR returns the false-positive rate of a split-block filter with load items per
// block on average: the sum over i of Poisson(i; load) times the chance that i items
// have set all bits that another item asks for: (1 - (63/64)^i)^8 with one bit in each of eight words,
// (1 - (31/32)^i)^16 with one in each half of them. (Putze, Sanders, Singler: Cache-, Hash- and
// Space-Efficient Bloom Filters, 2007, section 3.)
func expectedFPR(load float64, bits int) float64 {
	if load <= 0 {
		return 0
	}
	load = min(load, maxLoad)
	sum, log := 0.0, math.Log(load)
	last := load + 40*math.Sqrt(load) + 60
	terms := expectedTerms
	if bits > k {
		terms = expectedPairs
	}
	for i, t := range terms() {
		n := float64(i)
		if n >= last {
			break
		}
		sum += math.Exp(n*log-load-t.lgamma) * t.hit
	}
	return sum
}

// expectedTerm is the part of the i-th term of expectedFPR that does not depend on the load.
type expectedTerm struct {
	lgamma float64 // ln i!
	hit    float64 // the chance that i items have set the bits
}

var expectedTerms, expectedPairs = termsOf(k), termsOf(2 * k)

func termsOf(itemBits float64) func() []expectedTerm {
	return sync.OnceValue(func() []expectedTerm {
		most := maxLoad + 40*math.Sqrt(maxLoad) + 60
		terms := make([]expectedTerm, 0, int(most)+1)
		for i := 0.0; i < most; i++ {
			lgamma, _ := math.Lgamma(i + 1)
			terms = append(terms, expectedTerm{lgamma, math.Pow(1-math.Pow(1-itemBits/(8*blockBytes), i), itemBits)})
		}
		return terms
	})
}

// column is how many bits there are for each of the bits of an item.
func (h Header) column() float64 { return float64(h.Blocks) * 8 * blockBytes / float64(h.K()) }

// itemsFromFill estimates how many distinct items set this number of bits.
func (h Header) itemsFromFill(bitsSet uint64) float64 {
	all := h.column() * float64(h.K())
	clear := 1 - float64(bitsSet)/all
	if clear <= 0 {
		clear = 1 / all
	}
	return math.Log(clear) / math.Log1p(-1/h.column())
}

// OnesOf returns how many bits this number of items sets on average.
func (h Header) OnesOf(items uint64) uint64 {
	return uint64(-h.column() * float64(h.K()) * math.Expm1(float64(items)*math.Log1p(-1/h.column())))
}

// Expected returns the expected false-positive rate of a map with this number of items. The map
// must be one that does not grow, or a Layer.
func (h Header) Expected(items uint64) float64 {
	return expectedFPR(float64(items)/float64(h.Blocks), h.K())
}

// Holds returns up to how many items the map keeps its error rate: its capacity, or more in a map
// that is larger because no map is smaller. The map must be one that does not grow, or a Layer.
func (h Header) Holds() uint64 {
	return max(h.Capacity, uint64(float64(h.Blocks)*loads.of(h.ErrorRate, h.K())))
}

// BitsPerItem returns how many bits per item the map has at its capacity.
func (h Header) BitsPerItem() float64 { return 8 * float64(h.Bytes()) / float64(h.Capacity) }

// K returns how many bits an item sets.
func (h Header) K() int {
	if h.pairs {
		return 2 * k
	}
	return k
}
