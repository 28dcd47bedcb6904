package main

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	bitsbloom "github.com/bits-and-blooms/bloom/v3"
	"github.com/greatroar/blobloom"
	"github.com/jcalabro/gloom"
	"github.com/zeebo/xxh3"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

const (
	batch     = 1000
	errorRate = 0.0001
)

// items makes URLs of 66 bytes that differ in 16 hex digits.
type items struct {
	text [batch][]byte
	next uint64
}

const urlPattern = "https://www.example.com/catalogue/item/0123456789abcdef/index.html"

const digitsAt = 39

func newItems(from uint64) *items {
	it := &items{next: from}
	for i := range it.text {
		it.text[i] = []byte(urlPattern)
	}
	return it
}

// fill makes the next batch: the first half is new, the second half repeats the first half
// of the batch before.
func (it *items) fill() {
	for i := range batch / 2 {
		putHex(it.text[i][digitsAt:], it.next+uint64(i))
		putHex(it.text[batch/2+i][digitsAt:], it.next+uint64(i)-batch/2)
	}
	it.next += batch / 2
}

// putHex writes 16 hex digits of a scrambled n: neighbours share no prefix.
func putHex(dst []byte, n uint64) {
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], n*0x9e3779b97f4a7c15)
	hex.Encode(dst, raw[:])
}

// inProcess measures a test-and-set of a 66-byte URL, hashing included, half of the
// items duplicates.
func inProcess(s settings) error {
	t := report.Table{{"filter", "10 M items", "150 M items", "ratio at 150 M"}}
	type peer struct {
		name string
		make func(capacity uint64) (add func(*items), free func(), err error)
	}
	peers := []peer{
		{"urifilter, one core", oursOneCore},
		{"urifilter, two cores, wall", nil},
		{"jcalabro/gloom", gloomFilter},
		{"greatroar/blobloom + xxh3", blob},
		{"bits-and-blooms/bloom", bitsAndBlooms},
	}
	var base float64
	for _, p := range peers {
		cells := []string{p.name}
		var ns float64
		for _, capacity := range []uint64{10_000_000, 150_000_000} {
			var err error
			if p.make == nil {
				ns, err = twoCores(s, capacity)
			} else {
				ns, err = oneCore(s, fmt.Sprintf("InProcess/filter=%s/items=%d", p.name, capacity), capacity, p.make)
			}
			if err != nil {
				return err
			}
			cells = append(cells, fmt.Sprintf("%.1f ns", ns))
		}
		if base == 0 {
			base = ns
		}
		t.Row(append(cells, fmt.Sprintf("%.1f", ns/base))...)
	}
	s.out.Table("inprocess", "One test-and-set of a 66-byte URL, batches of 1,000, half duplicates", t)
	return nil
}

const (
	warmBatches    = 3000 // touches the memory
	measureBatches = 1500
)

func oneCore(s settings, name string, capacity uint64, mk func(uint64) (func(*items), func(), error)) (float64, error) {
	add, free, err := mk(capacity)
	if err != nil {
		return 0, err
	}
	defer free()
	it := newItems(1 << 40)
	for range warmBatches {
		it.fill()
		add(it)
	}
	return timed(s, name, measureBatches, it, add), nil
}

// timed returns the median of runs of so many batches each.
func timed(s settings, name string, batches int, it *items, add func(*items)) float64 {
	var all []float64
	for range s.runs {
		var spent time.Duration
		for range batches {
			it.fill()
			start := time.Now()
			add(it)
			spent += time.Since(start)
		}
		all = append(all, float64(spent.Nanoseconds())/float64(batches*batch))
		s.out.Run(name, report.Nanos("op", all[len(all)-1]))
	}
	return report.Median(all)
}

func newMap(capacity uint64) (*bloom.Map, error) {
	h, err := bloom.NewHeader(capacity, errorRate, 42, time.Now())
	if err != nil {
		return nil, err
	}
	return bloom.New(h)
}

func oursOneCore(capacity uint64) (func(*items), func(), error) {
	m, err := newMap(capacity)
	if err != nil {
		return nil, nil, err
	}
	return adder(m), func() { _ = m.Close() }, nil
}

func adder(m *bloom.Map) func(*items) {
	keys, fresh := make([]bloom.Hash, batch), make([]bool, batch)
	ahead := m.Prefetcher()
	return func(it *items) {
		for from := 0; from < batch; from += bloom.Ahead { // as the daemon does
			to := min(from+bloom.Ahead, batch)
			for i := from; i < to; i++ {
				keys[i] = bloom.Sum(42, it.text[i])
			}
			ahead.Prefetch(keys[from:to])
		}
		m.Add(keys, fresh)
	}
}

// twoCores measures the wall time an item takes when two goroutines share one map.
func twoCores(s settings, capacity uint64) (float64, error) {
	m, err := newMap(capacity)
	if err != nil {
		return 0, err
	}
	defer m.Close()
	work := func(from uint64, batches int) {
		// Items are made ahead, in a time that is measured and subtracted.
		const ahead = 64
		var ring [ahead]*items
		for i := range ring {
			ring[i] = newItems(from + uint64(i)<<32)
		}
		add := adder(m)
		for i := range batches {
			it := ring[i%ahead]
			it.fill()
			add(it)
		}
	}
	making := func(from uint64, batches int) {
		it := newItems(from)
		for range batches {
			it.fill()
		}
	}
	both := func(f func(uint64, int), run uint64, batches int) time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for w := range uint64(2) {
			wg.Go(func() { f(w<<48|run<<40, batches) })
		}
		wg.Wait()
		return time.Since(start)
	}
	both(work, 0, warmBatches/2)
	var all []float64
	for run := range s.runs {
		spent := both(work, uint64(run)+1, measureBatches) - both(making, uint64(run)+1, measureBatches)
		all = append(all, float64(spent.Nanoseconds())/(2*measureBatches*batch))
		s.out.Run(fmt.Sprintf("InProcess/filter=urifilter, two cores/items=%d", capacity), report.Nanos("op", all[len(all)-1]))
	}
	return report.Median(all), nil
}

func bitsAndBlooms(capacity uint64) (func(*items), func(), error) {
	f := bitsbloom.NewWithEstimates(uint(capacity), errorRate)
	return func(it *items) {
		for _, text := range it.text {
			f.TestAndAdd(text)
		}
	}, func() {}, nil
}

func blob(capacity uint64) (func(*items), func(), error) {
	f := blobloom.NewOptimized(blobloom.Config{Capacity: capacity, FPRate: errorRate})
	return func(it *items) {
		for _, text := range it.text {
			h := xxh3.Hash(text)
			if !f.Has(h) {
				f.Add(h)
			}
		}
	}, func() {}, nil
}

// gloomFilter asks before it adds, as gloom has no call that does both.
func gloomFilter(capacity uint64) (func(*items), func(), error) {
	f := gloom.New(capacity, errorRate)
	return func(it *items) {
		for _, text := range it.text {
			if !f.Test(text) {
				f.Add(text)
			}
		}
	}, func() {}, nil
}
