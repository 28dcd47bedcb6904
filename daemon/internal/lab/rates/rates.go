// Package rates computes and measures how many new items Bloom filters mistake for seen ones:
// classic filters by bits and k, ours with its blocks beside them, and ours as it fills up.
package rates

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/mapped"
	"github.com/cr-clawer/urifilter/daemon/internal/lab"
)

// The classic table: bits per item, and k.
const (
	MinBits, MaxBits = 2, 32
	MaxK             = 8
	blockBits        = 512
)

// Cell is one filter, computed and measured.
type Cell struct {
	K        int     `json:"k"`
	Computed float64 `json:"computed"`
	Measured float64 `json:"measured"`
	Low      float64 `json:"low"` // of the 95 % interval
	High     float64 `json:"high"`
	Seen     int     `json:"taken_for_seen"`
	Asked    int     `json:"asked"`
}

// Row has the results of filters with the given number of bits per item.
type Row struct {
	Bits     int     `json:"bits_per_item"`
	BestK    int     `json:"best_k"` // of classic filters, 1 or more
	BestRate float64 `json:"best_rate"`
	Classic  []Cell  `json:"classic"` // k from 1 to MaxK
	Blocked  Cell    `json:"blocked"` // ours
}

// Classic returns the error rate of a Bloom filter in which the k bits of an item are independent
// (Bloom 1970, by the usual approximation).
func Classic(bitsPerItem float64, k int) float64 {
	return math.Pow(-math.Expm1(-float64(k)/bitsPerItem), float64(k))
}

// BestK returns the k with the lowest rate.
func BestK(bitsPerItem float64) int {
	k := max(1, int(bitsPerItem*math.Ln2))
	if Classic(bitsPerItem, k+1) < Classic(bitsPerItem, k) {
		k++
	}
	return k
}

// cell makes a Cell of what was measured.
func cell(k int, computed float64, seen, asked int) Cell {
	c := Cell{K: k, Computed: computed, Seen: seen, Asked: asked, Measured: float64(seen) / float64(asked)}
	c.Low, c.High = lab.Interval(seen, asked)
	return c
}

// Table measures the classic table with n items in each filter, and looks up asked other items in
// each. each receives the progress.
func Table(ctx context.Context, n, asked int, each func(done, of int)) ([]Row, error) {
	in, out := keys(n, 1), keys(asked, 2)
	var rows []Row
	for bits := MinBits; bits <= MaxBits; bits++ {
		each(bits-MinBits, MaxBits-MinBits+1)
		row := Row{Bits: bits, BestK: BestK(float64(bits))}
		row.BestRate = Classic(float64(bits), row.BestK)
		for k := 1; k <= MaxK; k++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			row.Classic = append(row.Classic, cell(k, Classic(float64(bits), k), classic(bits*n, k, in, out), asked))
		}
		h := bloom.Header{Blocks: uint64(max(1, bits*n/blockBits)), Capacity: uint64(n), ErrorRate: bloom.MaxErrorRate, Seed: 1, Generation: 1}
		m, err := bloom.New(h)
		if err != nil {
			return nil, err
		}
		add(m, in)
		row.Blocked = cell(h.K(), h.Expected(uint64(n)), seen(m, out), asked)
		if err := m.Close(); err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	each(1, 1)
	return rows, nil
}

// classic fills a filter of m bits with in, and returns how many of out it mistakes for seen
// ones. The k bits are those of Kirsch and Mitzenmacher (2006) in their enhanced form, from the
// two halves of the hash.
func classic(m, k int, in, out []bloom.Hash) (seen int) {
	filter := make([]uint64, m/64+1)
	for _, key := range in {
		a, b := key.Hi, key.Lo
		for i := range k {
			at := place(a, m)
			filter[at/64] |= 1 << (at % 64)
			a, b = a+b, b+uint64(i)
		}
	}
next:
	for _, key := range out {
		a, b := key.Hi, key.Lo
		for i := range k {
			at := place(a, m)
			if filter[at/64]>>(at%64)&1 == 0 {
				continue next
			}
			a, b = a+b, b+uint64(i)
		}
		seen++
	}
	return seen
}

// place maps a hash to one of m bits.
func place(a uint64, m int) uint64 { return a % uint64(m) }

// Level is a filter at one load, and how it performs.
type Level struct {
	Load  float64 `json:"load"` // items, as a share of the capacity
	Items uint64  `json:"items"`
	Cell
	Promised float64 `json:"promised"`
}

// Fill describes one of our filters, and how it performs as it fills up.
type Fill struct {
	Capacity    uint64  `json:"capacity"`
	ErrorRate   float64 `json:"error_rate"`
	K           int     `json:"k"`
	Blocks      uint64  `json:"blocks"`
	Bits        uint64  `json:"bits"`
	Bytes       uint64  `json:"bytes"`
	BitsPerItem float64 `json:"bits_per_item"`
	// Classic filters of the same rate, for comparison.
	ClassicBits float64 `json:"classic_bits_per_item"`
	ClassicK    int     `json:"classic_k"`
	Levels      []Level `json:"levels"`
}

// Loads returns the loads at which the filter is measured.
func Loads() []float64 { return []float64{0.25, 0.5, 1, 1.5} }

// Measure fills a filter of fixed size for capacity items, in the daemon's own layout, and looks
// up asked other items at each load.
func Measure(ctx context.Context, capacity uint64, errorRate float64, asked int, each func(done, of uint64)) (Fill, error) {
	h, err := bloom.NewHeader(capacity, errorRate, rand.Uint64(), time.Now())
	if err != nil {
		return Fill{}, err
	}
	if has := mapped.Machine(); has > 0 && h.Bytes() > has {
		return Fill{}, fmt.Errorf("a filter for %d items takes %d bytes, and this machine has %d", capacity, h.Bytes(), has)
	}
	f := Fill{
		Capacity: capacity, ErrorRate: errorRate, K: h.K(), Blocks: h.Blocks, Bits: 8 * h.Bytes(), Bytes: h.Bytes(), BitsPerItem: h.BitsPerItem(),
		ClassicBits: -math.Log(errorRate) / (math.Ln2 * math.Ln2), ClassicK: max(1, int(math.Round(-math.Log2(errorRate)))),
	}
	m, err := bloom.New(h)
	if err != nil {
		return Fill{}, err
	}
	defer func() { _ = m.Close() }()
	const batch = 1 << 14
	random, fresh := rand.New(rand.NewPCG(rand.Uint64(), 1)), make([]bool, batch)
	all := make([]bloom.Hash, batch)
	total := uint64(float64(capacity) * Loads()[len(Loads())-1])
	for items, i := uint64(0), 0; i < len(Loads()); i++ {
		for want := max(1, uint64(float64(capacity)*Loads()[i])); items < want; {
			if ctx.Err() != nil {
				return Fill{}, context.Cause(ctx)
			}
			some := all[:min(batch, want-items)]
			fillKeys(random, some)
			m.Add(some, fresh[:len(some)])
			items += uint64(len(some))
			each(items, total)
		}
		taken := 0
		for left := asked; left > 0; {
			if ctx.Err() != nil {
				return Fill{}, context.Cause(ctx)
			}
			some := all[:min(batch, left)]
			fillKeys(random, some)
			taken += seen(m, some)
			left -= len(some)
		}
		f.Levels = append(f.Levels, Level{Load: Loads()[i], Items: items, Cell: cell(h.K(), h.Expected(items), taken, asked), Promised: errorRate})
	}
	return f, nil
}

// keys returns n random keys, always the same for a seed.
func keys(n int, seed uint64) []bloom.Hash {
	all := make([]bloom.Hash, n)
	fillKeys(rand.New(rand.NewPCG(seed, uint64(n))), all)
	return all
}

func fillKeys(random *rand.Rand, keys []bloom.Hash) {
	for i := range keys {
		keys[i] = bloom.Hash{Hi: random.Uint64(), Lo: random.Uint64()}
	}
}

func add(m *bloom.Map, keys []bloom.Hash) { m.Add(keys, make([]bool, len(keys))) }

// seen returns how many of keys the map takes for seen.
func seen(m *bloom.Map, keys []bloom.Hash) (n int) {
	fresh := make([]bool, len(keys))
	m.Has(keys, fresh)
	for _, f := range fresh {
		if !f {
			n++
		}
	}
	return n
}
