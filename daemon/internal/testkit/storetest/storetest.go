// Package storetest is the conformance suite of engine.Store: what every store must do,
// whatever it keeps its bits in. A store's own test calls Run with a way to open it.
package storetest

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Opener makes stores for one test.
type Opener struct {
	// Open returns the store with its present data, empty at first. The suite closes a store
	// before it opens it again.
	Open func() (engine.Store, error)
	// Pass lets time pass for the store; nil: time.Sleep.
	Pass func(time.Duration)
	// Refuses names the kinds of filters that the store does not create.
	Refuses []string
	// Elsewhere says that the store is not on this machine: it refuses what is for the embedded store only,
	// and takes what that one refuses.
	Elsewhere bool
	// HighBits is for kinds of whose keys the store keeps only a part: how many of the highest
	// bits of Hi it distinguishes, besides all of Lo.
	HighBits map[string]int
	// Bounded says that the store takes less memory than the size of its bit-maps.
	Bounded bool
}

func (o Opener) takes(s Sample) bool { return o.refuses(s) == "" }

// refuses returns the field because of which the store refuses such a filter; "": it does not.
func (o Opener) refuses(s Sample) string {
	if slices.Contains(o.Refuses, s.Kind) {
		return "kind"
	}
	store := configs.StoreEmbedded
	if o.Elsewhere {
		store = "elsewhere"
	}
	if wrong := s.spec("", 1, 1).NotIn(store); wrong != nil {
		return wrong.Field
	}
	return ""
}

func (o Opener) pass(d time.Duration) {
	if o.Pass != nil {
		o.Pass(d)
	} else {
		time.Sleep(d)
	}
}

// Sample is what the suite knows about a kind of filter. It finds out by itself what the
// filters can do.
type Sample struct {
	Kind    string
	Variant string // where there are several samples of a kind
	// Params returns the parameters of a filter for n items, other ones for another n. If items
	// expire, they do so after the end of any test.
	Params func(n uint64) configs.Params
	// Exact says that no new item is ever called seen.
	Exact bool
}

// Samples has a line for every kind, and for every variant of a kind that behaves quite
// differently.
func Samples() []Sample {
	return []Sample{
		{Kind: "bloom", Params: func(n uint64) configs.Params { return configs.Bloom{Capacity: n, ErrorRate: 1e-4, OnFull: "warn"} }},
		{Kind: "bloom", Variant: "-grow", Params: func(n uint64) configs.Params { return configs.Bloom{Capacity: n, ErrorRate: 1e-4, OnFull: "grow"} }},
		{Kind: "bloom", Variant: "-fingerprints", Params: func(n uint64) configs.Params {
			return configs.Bloom{Capacity: n, ErrorRate: 1e-4, OnFull: "grow", Layout: "fingerprints"}
		}},
		{Kind: "scaling", Params: func(n uint64) configs.Params { return configs.NewScaling(n, 1e-4, 2, false) }},
		{Kind: "timing", Exact: true, Params: func(n uint64) configs.Params {
			return configs.Timing{Expire: long + time.Duration(n)*time.Millisecond}
		}},
		// Two fingerprints that differ in a few bits are so rare that no test meets them; so a
		// filter of texts has an answer to each item, see withItems.
		{Kind: "simhash", Exact: true, Params: func(n uint64) configs.Params {
			return configs.Simhash{Distance: 1 + n%2, FeatureHash: configs.FeatureXXH3}
		}},
		{Kind: "exact", Exact: true, Params: func(n uint64) configs.Params {
			return configs.Exact{Canonical: configs.Canonical{Canonical: configs.CanonicalCrawl, CanonicalDrop: fmt.Sprintf("items-%d", n)}}
		}},
		{Kind: "exact", Variant: "-64", Exact: true, Params: func(n uint64) configs.Params {
			return configs.Exact{Digest: configs.ShortDigest, Canonical: configs.Canonical{Canonical: configs.CanonicalCrawl, CanonicalDrop: fmt.Sprintf("items-%d", n)}}
		}},
	}
}

func (s Sample) spec(name string, id int, n uint64) engine.Spec {
	return engine.Spec{ID: id, Name: name, Kind: s.Kind, Params: s.Params(n)}
}

type test = func(*testing.T, Opener, Sample)

// Run runs the suite, except the tests of RunLarge, for every kind. fresh is called once per
// test and must give empty data.
func Run(t *testing.T, fresh func(t *testing.T) Opener) {
	run(t, fresh, map[string]test{
		"Order":            testOrder,
		"Empty":            testEmpty,
		"Restart":          testRestart,
		"Contention":       testContention(10, 200),
		"Independent":      testIndependent,
		"CreateDrop":       testCreateDrop,
		"Closed":           testClosed,
		"Clear":            testClear,
		"ClearContention":  testClearContention,
		"Numbers":          testNumbers,
		"Forget":           testForget,
		"ForgetContention": testForgetContention(100),

		"Reserve":           testReserve,
		"LeaseEnds":         testLeaseEnds,
		"ReserveAgain":      testReserveAgain,
		"ReserveContention": testReserveContention,
	}, map[string]test{
		"Stripes": testStripes,

		"Reject":           testReject,
		"RejectContention": testRejectContention,
	}, map[string]test{
		"Deadline":      testDeadline,
		"Expire":        testExpire,
		"ExpireRestart": testExpireRestart,
	})
}

// RunLarge runs the tests of the suite that put many items into a filter: the race detector
// finds nothing in them that it does not find in Run.
func RunLarge(t *testing.T, fresh func(t *testing.T) Opener) {
	run(t, fresh, map[string]test{
		"Huge": testHuge, "ContentionLarge": testContention(4, 1500), "ForgetContentionLarge": testForgetContention(500),
	}, map[string]test{"Capacity": testCapacity, "Grow": testGrow}, nil)
}

// run runs the tests of each kind: all for every kind, bitMap for those that have a bit-map,
// expiring for those whose items expire.
func run(t *testing.T, fresh func(t *testing.T) Opener, all, bitMap, expiring map[string]test) {
	for _, kind := range configs.Kinds() {
		if !slices.ContainsFunc(Samples(), func(s Sample) bool { return s.Kind == kind.Name }) {
			t.Errorf("the suite has no sample of the kind %s", kind.Name)
		}
	}
	for _, s := range Samples() {
		tests := maps.Clone(all)
		if s.spec("", 1, 1).HasBitMap() {
			maps.Copy(tests, bitMap)
		}
		if configs.Expires(s.Kind) {
			maps.Copy(tests, expiring)
		}
		for name, test := range tests {
			t.Run(s.Kind+s.Variant+"/"+name, func(t *testing.T) {
				t.Parallel()
				o := fresh(t)
				if !o.takes(s) {
					test = testRefused
				}
				test(t, o, s)
			})
		}
	}
}

// Identity returns the identity of a new filter, with a seed of its own.
func Identity() engine.Identity {
	return engine.Identity{Seed: rand.Uint64(), Generation: 1, Created: time.Now().UTC().Truncate(0)}
}

// Header describes an empty bit-map for spec, with a seed of its own.
func Header(spec engine.Spec) bloom.Header {
	h, err := engine.BitMapHeader(spec, Identity(), true)
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
	for spec, set := range sets {
		sets[spec] = withItems(set)
	}
	return sets
}

func closeStore(t *testing.T, store engine.Store) {
	t.Helper()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// reopen opens a store again, as the next process does, and returns its filter with that spec.
func reopen(t *testing.T, o Opener, store engine.Store, spec engine.Spec) (engine.Store, engine.Set) {
	t.Helper()
	closeStore(t, store)
	store = open(t, o)
	sets := load(t, store)
	if sets[spec] == nil {
		t.Fatalf("%s is gone: %v", spec.Name, sets)
	}
	return store, sets[spec]
}

// one opens an empty store with a single filter for n items.
func one(t *testing.T, o Opener, s Sample, n uint64) (engine.Store, engine.Set) {
	t.Helper()
	store := open(t, o)
	if sets := load(t, store); len(sets) != 0 {
		t.Fatalf("a new store holds %d filters", len(sets))
	}
	return store, create(t, store, s.spec("uri", 1, n))
}

func create(t *testing.T, store engine.Store, spec engine.Spec) engine.Set {
	t.Helper()
	set, err := store.Create(context.Background(), spec, Identity())
	if err != nil {
		t.Fatal(err)
	}
	return withItems(set)
}

// Keys hashes items from..from+n-1 of an endless list of URLs.
func Keys(set engine.Set, from, n int) []bloom.Hash {
	keys, seed := make([]bloom.Hash, n), set.Seed()
	item := []byte("https://example.com/item/")
	prefix := len(item)
	for i := range keys {
		item = strconv.AppendInt(item[:prefix], int64(from+i), 10)
		keys[i] = bloom.Sum(seed, item)
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

// wantCount fails unless so many of these are marked.
func wantCount(t *testing.T, what string, marked []bool, want int) {
	t.Helper()
	if got := count(marked); got != want {
		t.Errorf("%s: %d of %d, want %d", what, got, len(marked), want)
	}
}
