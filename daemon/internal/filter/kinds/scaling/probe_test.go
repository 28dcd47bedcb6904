package scaling

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// The multiplication gives what the division would, for any size that a layer can have.
func TestPlace(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for bits := 6; bits <= 43; bits++ {
		for range 200 {
			size := (uint64(1)<<bits + random.Uint64N(1<<bits)) &^ 63
			l := layer{size: size, inverse: math.MaxUint64 / size}
			last := math.MaxUint64 / size * size
			for _, at := range []uint64{0, 1, size - 1, size, size + 1, last - 1, last, math.MaxUint64 - 1, math.MaxUint64, random.Uint64(), random.Uint64N(size)} {
				if got := l.place(at); got != at%size {
					t.Fatalf("%d mod %d: got %d, want %d", at, size, got, at%size)
				}
			}
		}
	}
}

// Batches of any size answer what one key after the other does, and leave the same bits, while the
// chain grows within them.
func TestBatchesAreAsSingleKeys(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	p := configs.NewScaling(20, 0.2, 2, false)
	m, single := memoryOf(t, p), memoryOf(t, p)
	all := keysOf(0, 5000, "example")
	for range 400 {
		keys := make([]bloom.Hash, random.IntN(3*chunk))
		for i := range keys {
			keys[i] = all[random.IntN(len(all))]
		}
		had, fresh, one := make([]bool, len(keys)), make([]bool, len(keys)), make([]bool, 1)
		m.Has(keys, had)
		for i := range keys {
			if single.Has(keys[i:i+1], one); one[0] != had[i] {
				t.Fatalf("key %d of %d: new is %v in a batch, alone %v", i, len(keys), had[i], one[0])
			}
		}
		n, err := m.Add(keys, fresh)
		if err != nil {
			t.Fatal(err)
		}
		for i := range keys {
			if add(t, single, keys[i:i+1]) == 1 != fresh[i] {
				t.Fatalf("key %d of %d: new is %v in a batch, not alone", i, len(keys), fresh[i])
			}
			if fresh[i] {
				n--
			}
		}
		if n != 0 {
			t.Fatalf("%d more are counted than are new", n)
		}
	}
	if a, b := parts(t, m), parts(t, single); string(a) != string(b) || len(m.chain.layers) < 5 {
		t.Errorf("dumps of %d and %d bytes differ, %d layers", len(a), len(b), len(m.chain.layers))
	}
	if held, want := m.MemoryFor(engine.More{Items: 0}), m.chain.bytes(); held != want {
		t.Errorf("%d bytes are told, want %d", held, want)
	}
	if got, want := m.MemoryFor(engine.More{Items: 100_000}), m.chain.bytesFor(100_000); got != want || got <= m.Bytes() {
		t.Errorf("%d bytes for more items, want %d", got, want)
	}
}

// Of equal keys in several goroutines one is new, while others ask and the chain grows; what was
// new is in the journal before anybody sees it.
func TestOneOfManyIsNew(t *testing.T) {
	m := memoryOf(t, configs.NewScaling(500, 1e-9, 2, false))
	keys := keysOf(0, 20_000, "example")
	var all sync.WaitGroup
	var mu sync.Mutex
	news := 0
	for range 4 {
		all.Go(func() {
			for from := 0; from < len(keys); from += 200 {
				part := keys[from : from+200]
				n, err := m.Add(part, make([]bool, len(part)))
				if err != nil {
					t.Error(err)
				}
				if got := seen(m, part); got != len(part) {
					t.Errorf("%d of %d are seen after they were added", got, len(part))
				}
				mu.Lock()
				news += n
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if news != len(keys) || m.Stats().Items != uint64(len(keys)) || len(m.journal.(*journal).slots) != 2*len(keys) {
		t.Errorf("%d were new, %d are counted, %d entries; want %d", news, m.Stats().Items, len(m.journal.(*journal).slots)/2, len(keys))
	}
}

// A dump may come from anybody: one of a layer without bits is no dump.
func TestNoBits(t *testing.T) {
	m := memoryOf(t, configs.NewScaling(1, 0.5, 2, true))
	head := m.chain.appendHead(nil)
	none := layer{errorRate: 0.999, capacity: 1, hashes: 1}
	empty := (&chain{layers: []*layer{&none}, expansion: 2, fixed: true}).appendHead(nil)
	if _, _, err := parseHead(head); err != nil {
		t.Error(err)
	}
	if _, _, err := parseHead(empty); err == nil {
		t.Error("a layer of 0 bits is taken")
	}
}
