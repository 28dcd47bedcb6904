// Package storetest is the conformance suite of engine.Store: what every store must do,
// whatever it keeps its bits in. A store's own test calls Run with a way to open it.
package storetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// Opener makes stores for one test.
type Opener struct {
	// Open returns the store on its present data, empty at first. The suite closes
	// what it opened before it opens again.
	Open func() (engine.Store, error)
	// Pass lets time pass for the store; nil: time.Sleep.
	Pass func(time.Duration)
}

func (o Opener) pass(d time.Duration) {
	if o.Pass != nil {
		o.Pass(d)
	} else {
		time.Sleep(d)
	}
}

// Run runs the suite but the tests of RunLarge. fresh is called once a test and must give
// empty data.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	run(t, fresh, map[string]func(*testing.T, Opener){
		"Order":           testOrder,
		"Empty":           testEmpty,
		"Restart":         testRestart,
		"Contention":      testContention,
		"Independent":     testIndependent,
		"CreateDrop":      testCreateDrop,
		"Stripes":         testStripes,
		"Closed":          testClosed,
		"Clear":           testClear,
		"ClearContention": testClearContention,
		"TimingClear":     testTimingClear,
		"Numbers":         testNumbers,

		"TimingDeadline":   testDeadline,
		"TimingExpire":     testExpire,
		"TimingOrder":      testTimingOrder,
		"TimingRestart":    testTimingRestart,
		"TimingContention": testTimingContention,
		"TimingCreateDrop": testTimingCreateDrop,
		"TimingNoBitMap":   testNoBitMap,
		"TimingClosed":     testTimingClosed,
	})
}

// RunLarge runs the tests of the suite that put many items into a filter, one batch after
// the other: the race detector has nothing to find in them that it does not in Run.
func RunLarge(t *testing.T, fresh func(t *testing.T) Opener) {
	run(t, fresh, map[string]func(*testing.T, Opener){
		"Huge":       testHuge,
		"Capacity":   testCapacity,
		"TimingHuge": testTimingHuge,
	})
}

func run(t *testing.T, fresh func(t *testing.T) Opener, tests map[string]func(*testing.T, Opener)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, fresh(t))
		})
	}
}

func spec(name string, id int, capacity uint64) engine.Spec {
	return engine.Spec{ID: id, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: capacity, ErrorRate: 1e-4, OnFull: "warn"}}
}

// Identity is that of a new filter, with a seed of its own.
func Identity() engine.Identity {
	return engine.Identity{Seed: rand.Uint64(), Generation: 1, Created: time.Now().UTC().Truncate(0)}
}

// Header describes an empty bit-map for spec, with a seed of its own.
func Header(spec engine.Spec) bloom.Header {
	h, err := engine.BitMapHeader(spec, Identity())
	if err != nil {
		panic(err) // of a test's own spec
	}
	return h
}

func open(t *testing.T, o Opener) engine.Store {
	t.Helper()
	store, err := o.Open()
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func load(t *testing.T, store engine.Store) map[engine.Spec]engine.Set {
	t.Helper()
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return sets
}

func closeStore(t *testing.T, store engine.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// one opens an empty store with a single filter.
func one(t *testing.T, o Opener, capacity uint64) (engine.Store, engine.Set) {
	t.Helper()
	store := open(t, o)
	if sets := load(t, store); len(sets) != 0 {
		t.Fatalf("a new store holds %d filters", len(sets))
	}
	set, err := store.Create(context.Background(), spec("uri", 1, capacity), Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, set
}

// Keys hashes items from..from+n-1 of an endless list of URLs.
func Keys(set engine.Set, from, n int) []bloom.Hash {
	keys := make([]bloom.Hash, n)
	for i := range keys {
		keys[i] = bloom.Sum(set.Seed(), fmt.Appendf(nil, "https://example.com/item/%d", from+i))
	}
	return keys
}

// Add adds items and returns which were fresh.
func Add(t *testing.T, set engine.Set, keys []bloom.Hash) []bool {
	t.Helper()
	fresh := make([]bool, len(keys))
	n, err := set.Add(context.Background(), keys, fresh)
	if err != nil {
		t.Fatal(err)
	}
	if got := count(fresh); got != n {
		t.Fatalf("Add returned %d and marked %d", n, got)
	}
	return fresh
}

func has(t *testing.T, set engine.Set, keys []bloom.Hash) []bool {
	t.Helper()
	fresh := make([]bool, len(keys))
	if err := set.Has(context.Background(), keys, fresh); err != nil {
		t.Fatal(err)
	}
	return fresh
}

func count(fresh []bool) int {
	n := 0
	for _, f := range fresh {
		if f {
			n++
		}
	}
	return n
}
