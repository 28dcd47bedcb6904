package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// nextChange returns the next change of other daemons that a store reports.
func nextChange(t *testing.T, s *Store) engine.Change {
	t.Helper()
	select {
	case change := <-s.Changes():
		return change
	case <-time.After(5 * time.Minute):
		t.Fatal("no change is seen")
		return engine.Change{}
	}
}

// An unreadable entry does not prevent other filters from being served, made or dropped, at
// running daemons and at one that starts. It is moved to where somebody can look at it.
func TestQuarantine(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	storeA, a := opened(t, config(server.Addr))
	add(t, a, 0, 1000)
	entries := map[string]string{"later": `{"id":9,"kind":"of a newer version"}`, "broken": `{"id":10,"ki`, "half": `{"id":11,"kind":"bloom","map":"AAAA"}`}
	for name, text := range entries {
		server.CLI("hset", registry.Key, name, text)
	}
	told := map[string]bool{}
	for len(told) < len(entries) {
		change := nextChange(t, storeA)
		if change.Bad == nil || told[change.Bad.Name] {
			t.Fatalf("got %+v, want each entry once", change)
		}
		told[change.Bad.Name] = true
	}
	storeB, b := opened(t, config(server.Addr))
	var names []string
	for _, q := range storeB.Quarantined() {
		names = append(names, q.Name)
		if want := map[string]int{"later": 9, "half": 11}[q.Name]; q.ID != want || !strings.Contains(q.Where, registry.Key) || !strings.Contains(q.Cause.Error(), "hint:") {
			t.Errorf("%+v", q)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"broken", "half", "later"}) {
		t.Fatalf("in quarantine are %q", names)
	}
	if n := add(t, b, 0, 1000); n != 0 {
		t.Errorf("%d items of the filter beside them are new again", n)
	}
	made := engine.Spec{ID: 20, Name: "made", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
	if _, err := storeB.Create(ctx, made, storetest.Identity()); err != nil {
		t.Errorf("a filter beside them cannot be made: %v", err)
	}
	if change := nextChange(t, storeA); change.Spec != made || change.Set == nil {
		t.Errorf("got %+v, want the filter that was made", change)
	}
	for _, spec := range []engine.Spec{{ID: 21, Name: "later"}, {ID: 9, Name: "other"}} {
		spec.Kind, spec.Params = "bloom", configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}
		if _, err := storeB.Create(ctx, spec, storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s, id %d: %v, want ErrConflict", spec.Name, spec.ID, err)
		}
	}
	server.CLI("hset", "urifilter:ids", "later", "9")
	for _, q := range storeB.Quarantined() {
		if q.Name != "later" {
			continue
		}
		if to, err := storeB.PutAway(ctx, q); err != nil || !strings.Contains(to, registry.QuarantineKey) {
			t.Fatalf("%q, %v", to, err)
		}
	}
	if id := server.CLI("hget", "urifilter:ids", "later"); id != "" {
		t.Errorf("made again, it would have the id %s again", id)
	}
	if change := nextChange(t, storeA); change.Mended == nil || change.Mended.Name != "later" {
		t.Errorf("got %+v, want that it is in quarantine no more", change)
	}
	if got := server.CLI("hvals", registry.QuarantineKey); got != entries["later"] {
		t.Errorf("the entry is not common: %s", got)
	}
	// A check of the registry that began earlier may record it once more, until the next check.
	testserver.Await(t, "two are left in quarantine", func() bool { return len(storeB.Quarantined()) == 2 })
	server.CLI("flushall") // entries in quarantine do not prevent a resync
	for _, s := range []*bitmap.Set{a, b} {
		if isNew, _ := addUntilAnswered(t, s, 0, 1000); countOf(isNew) != 0 {
			t.Errorf("%d items are new after redis was flushed", countOf(isNew))
		}
	}
}

// A key of any kind of filter that is another program's concerns that filter alone: a daemon that starts serves the
// others, and so does one that learns of the filter. It is served when the key is gone.
func TestQuarantineOfKeys(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store, _ := opened(t, config(server.Addr))
	second, _ := opened(t, config(server.Addr))
	for name, c := range map[string]struct {
		engine.Spec
		key func(set engine.Set) string
	}{
		"stripe of one that grows": {
			engine.Spec{ID: 2, Name: "grows", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "grow"}},
			func(set engine.Set) string { return set.(bitmap.Layered).StripeKeys()[0] },
		},
		"unacknowledged items": {
			engine.Spec{ID: 3, Name: "bits", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}},
			func(set engine.Set) string { return registry.UnackedKey(set.(base.Filter).Base().Entry) },
		},
		"witness": {
			engine.Spec{ID: 4, Name: "exact", Kind: "exact", Params: configs.Exact{}},
			func(set engine.Set) string { return set.(*exact.Set).Witness(0) },
		},
	} {
		set, err := second.Create(ctx, c.Spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		if change := nextChange(t, store); change.Set == nil {
			t.Fatalf("%s: %+v", name, change)
		}
		entry := server.CLI("hget", registry.Key, c.Name)
		server.CLI("hdel", registry.Key, c.Name)
		if change := nextChange(t, store); change.Gone == nil {
			t.Fatalf("%s: %+v", name, change)
		}
		server.CLI("del", c.key(set))
		server.CLI("hset", c.key(set), "of another", "program")
		server.CLI("hset", registry.Key, c.Name, entry)
		if change := nextChange(t, store); change.Bad == nil || !strings.Contains(change.Bad.Cause.Error(), "another program") {
			t.Fatalf("%s: %+v", name, change)
		}
		third, err := Open(ctx, config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		if sets, err := third.Load(ctx); err != nil || sets[uri] == nil || sets[c.Spec] != nil {
			t.Errorf("%s: a daemon that starts: %v, %v", name, sets, err)
		}
		_ = third.Close()
		server.CLI("del", c.key(set))
		if change := nextChange(t, store); change.Mended == nil {
			t.Errorf("%s: %+v", name, change)
		}
		if change := nextChange(t, store); change.Set == nil || change.Spec != c.Spec {
			t.Errorf("%s: %+v", name, change)
		}
		waitReady(t, store, second)
	}
}

// A key of a filter that is served becomes another program's: at the next resync that filter alone goes into
// quarantine, at all daemons. When the key is gone it is served again, with what the daemons knew.
func TestQuarantineOfServed(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store, beside := opened(t, config(server.Addr))
	second, _ := opened(t, config(server.Addr))
	meet(t, store, second)
	add(t, beside, 0, 100)
	bits := func(id int, name, onFull string) engine.Spec {
		return engine.Spec{ID: id, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: onFull}}
	}
	stripe := func(set engine.Set) string {
		return set.(interface{ StripeKeys() []string }).StripeKeys()[0]
	}
	unacked := func(set engine.Set) string { return registry.UnackedKey(set.(base.Filter).Base().Entry) }
	foreign := []string{"hset", "of another", "program"}
	cases := map[string]struct {
		engine.Spec
		key   func(set engine.Set) string
		write []string
	}{
		"stripe of another type":     {bits(2, "bits", "warn"), stripe, foreign},
		"stripe of other content":    {bits(3, "text", "warn"), stripe, []string{"set", "of another program"}},
		"stripe of another map":      {bits(4, "map", "warn"), stripe, []string{"set", "URISxxxx and more"}},
		"stripe of one that grows":   {bits(5, "grows", "grow"), stripe, foreign},
		"unacknowledged items":       {bits(6, "unacked", "warn"), unacked, foreign},
		"witness":                    {engine.Spec{ID: 7, Name: "witness", Kind: "exact", Params: configs.Exact{}}, func(set engine.Set) string { return set.(*exact.Set).Witness(0) }, foreign},
		"leases":                     {engine.Spec{ID: 8, Name: "leases", Kind: "exact", Params: configs.Exact{}}, func(set engine.Set) string { return set.(*exact.Set).Removals.LeasesKey(0) }, []string{"set", "of another program"}},
		"forgotten items":            {engine.Spec{ID: 9, Name: "forgotten", Kind: "exact", Params: configs.Exact{}}, func(set engine.Set) string { return set.(*exact.Set).Witness(63) + ":forgotten" }, foreign},
		"how far daemons have heard": {engine.Spec{ID: 10, Name: "followed", Kind: "exact", Params: configs.Exact{}}, func(set engine.Set) string { return set.(*exact.Set).Witness(63) + ":followed" }, foreign},
	}
	stores := []*Store{store, second}
	sets := map[string][]engine.Set{} // by name, as each store has it
	for name, c := range cases {
		set, err := second.Create(ctx, c.Spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		change := nextChange(t, store)
		if change.Set == nil {
			t.Fatalf("%s: %+v", name, change)
		}
		sets[c.Name] = []engine.Set{change.Set, set}
		if isNew, _ := addUntilAnswered(t, set, 0, 100); countOf(isNew) < 90 {
			t.Errorf("%s: %d are new, want nearly all", name, countOf(isNew))
		}
	}
	for _, c := range cases {
		key := c.key(sets[c.Name][1])
		server.CLI("del", key)
		server.CLI(append([]string{c.write[0], key}, c.write[1:]...)...)
	}
	store.state.Invalidate(insync.ErrLost)
	for i, s := range stores {
		for range cases {
			change := nextChange(t, s)
			if change.Bad == nil || change.Gone != sets[change.Bad.Name][i] || !strings.Contains(change.Bad.Cause.Error(), "another") {
				t.Fatalf("%+v", change)
			}
		}
		waitReady(t, s)
		for name, c := range cases {
			set := sets[c.Name][i]
			if _, err := set.Add(ctx, storetest.Keys(set, 0, 1), make([]bool, 1)); !errors.As(err, new(*engine.QuarantinedError)) {
				t.Errorf("%s: an item: %v", name, err)
			}
			if !slices.ContainsFunc(s.Quarantined(), func(q engine.Quarantined) bool { return q.Name == c.Name }) {
				t.Errorf("%s: in quarantine are %+v", name, s.Quarantined())
			}
		}
	}
	if isNew, _ := addUntilAnswered(t, beside, 0, 100); countOf(isNew) != 0 {
		t.Errorf("of the other filter %d items are new", countOf(isNew))
	}
	for _, c := range cases {
		server.CLI("del", c.key(sets[c.Name][1]))
	}
	for i, s := range stores {
		for range cases {
			mended := nextChange(t, s).Mended
			if mended == nil {
				t.Fatal("another change than that a filter is in order again")
			}
			set := sets[mended.Name][i]
			if change := nextChange(t, s); change.Set != set {
				t.Fatalf("%s: %+v", mended.Name, change)
			}
			if isNew, _ := addUntilAnswered(t, set, 0, 100); countOf(isNew) != 0 {
				t.Errorf("%s: %d items are new again", mended.Name, countOf(isNew))
			}
		}
		if len(s.Quarantined()) != 0 {
			t.Errorf("in quarantine are %+v", s.Quarantined())
		}
	}
}

// A batch that meets a key of another type puts its filter into quarantine; nothing is resynced for that.
func TestQuarantineByABatch(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store, _ := opened(t, config(server.Addr))
	cases := map[string]struct {
		engine.Spec
		key   func(set engine.Set) string
		write []string
		batch func(set engine.Set, keys []bloom.Hash) error
	}{
		"stripe": {
			engine.Spec{ID: 2, Name: "bits", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}},
			func(set engine.Set) string { return set.(*bitmap.Set).StripeKeys()[0] },
			[]string{"hset", "foreign", "of another", "program"},
			func(set engine.Set, keys []bloom.Hash) error {
				_, err := set.Add(ctx, keys, make([]bool, len(keys)))
				return err
			},
		},
		"leases": {
			engine.Spec{ID: 3, Name: "leases", Kind: "exact", Params: configs.Exact{}},
			func(set engine.Set) string { return set.(*exact.Set).Removals.LeasesKey(0) },
			[]string{"set", "foreign", "of another program"},
			func(set engine.Set, keys []bloom.Hash) error {
				_, err := set.(engine.Reserving).Reserve(ctx, engine.NewReservation(), keys, time.Minute, make([]bool, len(keys)))
				return err
			},
		},
	}
	epoch := store.state.Epoch.Load()
	sets := map[string]engine.Set{}
	for name, c := range cases {
		set, err := store.Create(ctx, c.Spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		sets[name] = set
		if isNew, _ := addUntilAnswered(t, set, 0, 100); countOf(isNew) < 90 {
			t.Errorf("%s: %d are new, want nearly all", name, countOf(isNew))
		}
		server.CLI(c.write...)
		server.CLI("rename", "foreign", c.key(set)) // in one step: nobody finds it gone
		if err := c.batch(set, storetest.Keys(set, 100, 900)); !errors.Is(err, engine.ErrUnavailable) {
			t.Errorf("%s: %v, want ErrUnavailable", name, err)
		}
		if change := nextChange(t, store); change.Bad == nil || change.Bad.Name != c.Name || !strings.Contains(change.Bad.Cause.Error(), "another program") {
			t.Fatalf("%s: %+v", name, change)
		}
		if err := c.batch(set, storetest.Keys(set, 0, 1)); !errors.As(err, new(*engine.QuarantinedError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := store.state.Epoch.Load(); now != epoch {
		t.Errorf("%d resyncs", now-epoch)
	}
	for name, c := range cases {
		server.CLI("del", c.key(sets[name]))
	}
	for name, set := range sets {
		if isNew, _ := addUntilAnswered(t, set, 0, 100); countOf(isNew) != 0 {
			t.Errorf("%s: %d items are new again", name, countOf(isNew))
		}
	}
}

// A filter that has grown stays in quarantine as long as a key of any of its layers is another program's: what is tried
// once a second does not take it for one in order, and make all daemons resync for it.
func TestQuarantineOfAClosedLayer(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store, _ := opened(t, config(server.Addr))
	set, err := store.Create(ctx, engine.Spec{ID: 2, Name: "grows", Kind: "bloom", Params: configs.Bloom{Capacity: 100, ErrorRate: 0.01, OnFull: "grow"}}, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	grown := set.(bitmap.Layered)
	addUntilAnswered(t, set, 0, 2000)
	addUntilAnswered(t, set, 2000, 100)
	if len(grown.Layers()) < 2 {
		t.Fatal("it has not grown")
	}
	server.CLI("hset", "foreign", "of another", "program")
	server.CLI("rename", "foreign", grown.StripeKeys()[0])
	store.state.Invalidate(insync.ErrMerged)
	if change := nextChange(t, store); change.Bad == nil {
		t.Fatalf("%+v", change)
	}
	waitReady(t, store)
	epoch := store.state.Epoch.Load()
	if err := store.follow(ctx, epoch); err != nil || len(store.Quarantined()) != 1 {
		t.Errorf("in quarantine are %+v, %v", store.Quarantined(), err)
	}
	server.CLI("del", grown.StripeKeys()[0])
	if isNew, _ := addUntilAnswered(t, set, 0, 2000); countOf(isNew) != 0 {
		t.Errorf("%d items are new again", countOf(isNew))
	}
}

// A foreign key that vanishes when one daemon has found it in a resync, and before another one has looked: the latter
// does not serve the filter without what the former knows.
func TestForeignKeyVanishesDuringAResync(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	first, _ := opened(t, config(server.Addr))
	var between atomic.Pointer[func()]
	second, _ := opened(t, config(server.Addr), func(s *Store) {
		s.barrier.Longer = func() time.Duration { // it has stopped, and has not looked yet
			if do := between.Swap(nil); do != nil {
				(*do)()
			}
			return 0
		}
	})
	meet(t, first, second)
	spec := engine.Spec{ID: 2, Name: "bits", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
	set, err := first.Create(ctx, spec, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	there := nextChange(t, second).Set
	if isNew, _ := addUntilAnswered(t, set, 0, 100); countOf(isNew) < 90 {
		t.Fatalf("%d are new, want nearly all", countOf(isNew))
	}
	key := set.(*bitmap.Set).StripeKeys()[0]
	server.CLI("hset", "foreign", "of another", "program")
	server.CLI("rename", "foreign", key)
	vanish := func() {
		testserver.Await(t, "the first daemon has found the key", func() bool { return len(first.Quarantined()) == 1 })
		server.CLI("del", key)
	}
	between.Store(&vanish)
	first.state.Invalidate(insync.ErrLost)
	testserver.Await(t, "the second daemon resyncs", func() bool { return between.Load() == nil })
	if isNew, _ := addUntilAnswered(t, there, 0, 100); countOf(isNew) != 0 {
		t.Errorf("%d items are new again", countOf(isNew))
	}
}

// A filter that cannot be served here, as there is no memory for its mirror, does not keep this daemon from
// learning of others.
func TestFollowBesideWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	store, _ := opened(t, config(server.Addr))
	other, _ := opened(t, config(server.Addr))
	params := configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}
	h, err := bloom.NewHeader(1000, 0.01, 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.Blocks = 1 << 45 // more than there are addresses
	text, err := registry.NewBitMapEntry(engine.Spec{ID: 2, Name: "a", Kind: "bloom", Params: params}, h).Encode()
	if err != nil {
		t.Fatal(err)
	}
	server.CLI("hset", registry.Key, "a", text)
	made := engine.Spec{ID: 3, Name: "b", Kind: "bloom", Params: params}
	if _, err := other.Create(ctx, made, storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	err = store.follow(ctx, store.state.Epoch.Load())
	if !errors.Is(err, engine.ErrNoSpace) {
		t.Errorf("the large one: %v", err)
	}
	if change := nextChange(t, store); change.Spec != made || change.Set == nil {
		t.Errorf("the other one: %+v", change)
	}
}

// The same for a stripe that belongs to another program, or to another filter.
func TestQuarantineOfStripes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	other := engine.Spec{ID: 2, Name: "ip", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
	if _, err := store.Create(context.Background(), other, storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	_ = store.Close()
	key := s.StripeKeys()[1]
	for _, command := range [][]string{{"set", key, "something else"}, {"del", key}, {"lpush", key, "x"}, {"del", key}, {"set", key, "URISxxxx and more"}} {
		if server.CLI(command...); command[0] == "del" {
			continue
		}
		store, err := Open(context.Background(), config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		sets, err := store.Load(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		bad := store.Quarantined()
		if len(sets) != 1 || sets[other] == nil || len(bad) != 1 || bad[0].Name != uri.Name || bad[0].ID != uri.ID || !strings.Contains(bad[0].Cause.Error(), key) {
			t.Errorf("%q: served %v, in quarantine %+v", command, sets, bad)
		}
		_ = store.Close()
	}
}
