package redis

import (
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// Bit-maps in Redis are merged by one daemon, and all know the items of both at once, whatever
// their mirrors have; a filter that takes no more than its capacity looks at the result. Digests
// cannot be listed there, and that is said.
func TestMerge(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	a, b := startDaemon(t, server.Addr), startDaemon(t, server.Addr)
	of := func(kind string, p configs.Params) (from, into engine.Spec) {
		from, into = engine.Spec{Name: kind + "_from", Kind: kind, Params: p}, engine.Spec{Name: kind + "_into", Kind: kind, Params: p}
		first, _, err := a.Create(ctx, into)
		if err == nil {
			_, _, err = a.CreateLike(ctx, from, first)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range []engine.Spec{from, into} { // the other daemon looks it up
			if _, err := b.Find(ctx, spec.Name); err != nil {
				t.Fatal(err)
			}
		}
		return from, into
	}
	for _, onFull := range []string{"grow", "reject"} {
		from, into := of("bloom", configs.Bloom{Capacity: 2000, ErrorRate: 1e-6, OnFull: onFull})
		a.ask(into.Name, 0, 1000)
		b.ask(from.Name, 100, 1100) // 900 are in both
		for range 2 {
			if f, err := b.Merge(ctx, from.Name, into.Name); err != nil || f.Name != into.Name {
				t.Fatalf("%s: %v", onFull, err)
			}
		}
		for i, d := range []*daemon{a, b} {
			if n := d.ask(into.Name, 0, 1200); n != 0 {
				t.Errorf("%s: of both filters' items %d are new at daemon %d", onFull, n, i)
			}
			if n := d.ask(from.Name, 0, 100); n != 100 && i == 0 {
				t.Errorf("%s: %d of 100 are new in the filter that was merged", onFull, n)
			}
		}
		if onFull == "reject" {
			a.ask(from.Name, 10_000, 700)
			if _, err := a.Merge(ctx, from.Name, into.Name); err != nil {
				t.Errorf("1,900 of 2,000 items: %v", err)
			}
			a.ask(from.Name, 20_000, 90)
			b.ask(into.Name, 30_000, 90)
			if _, err := a.Merge(ctx, from.Name, into.Name); !errors.Is(err, engine.ErrFull) {
				t.Errorf("2,080 of 2,000 items: %v", err)
			}
		}
		for _, spec := range []engine.Spec{from, into} {
			if err := a.Drop(ctx, spec.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	from, into := of("exact", configs.Exact{})
	if _, err := a.Merge(ctx, from.Name, into.Name); !errors.Is(err, engine.ErrListsNone) {
		t.Errorf("exact: %v", err)
	}
}

// A merge takes the memory of this machine that the mirrors have, and not that of the bits in Redis.
func TestMergeOfWhatIsNotMirroredWhole(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := config(redistest.Start(t).Addr)
	c.MirrorBytes = tiny
	store, err := Open(ctx, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.Open(ctx, store, engine.Settings{MemoryBytes: 2 << 20, Log: c.Log})
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := e.Create(ctx, uri) // 9 MB
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := e.CreateLike(ctx, engine.Spec{ID: 2, Name: "second", Kind: "bloom", Params: uri.Params}, first); err != nil {
		t.Fatal(err)
	}
	if n, err := first.Add(ctx, storetest.Keys(first.Set, 0, 100), 0, make([]bool, 100)); n != 100 || err != nil {
		t.Fatal(n, err)
	}
	second, err := e.Merge(ctx, uri.Name, "second")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := second.Add(ctx, storetest.Keys(second.Set, 0, 100), 0, make([]bool, 100)); n != 0 || err != nil {
		t.Error(n, err)
	}
}
