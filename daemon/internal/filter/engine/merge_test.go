package engine_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// slow is a store whose filter source calls a function each time it is read.
type slow struct {
	engine.Store
	reading func()
}

type slowSet struct {
	engine.BitMap
	reading func()
}

func (s slow) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	set, err := s.Store.Create(ctx, spec, b)
	if err == nil && spec.Name == "source" {
		set = slowSet{set.(engine.BitMap), s.reading}
	}
	return set, err
}

func (s slowSet) Stripe(ctx context.Context, i int, buf []byte) ([]byte, error) {
	s.reading()
	return s.BitMap.Stripe(ctx, i, buf)
}

// some are the hashes of n items from one on.
func some(from, n int) (all []bloom.Hash) {
	for i := range n {
		all = append(all, bloom.Sum(1, strconv.AppendInt(nil, int64(from+i), 10)))
	}
	return all
}

// A filter with on_full: reject takes no more than its capacity, even of what is merged and added at once.
func TestMergeAndAddWithinTheCapacity(t *testing.T) {
	var b *bench
	added := make(chan error, 1)
	reading := sync.OnceFunc(func() {
		go func() {
			f, err := b.Lookup("target")
			if err == nil {
				_, err = f.Add(context.Background(), some(20_000, 5000), 0, make([]bool, 5000))
			}
			added <- err
		}()
		select {
		case err := <-added:
			added <- err
		case <-time.After(200 * time.Millisecond): // it waits
		}
	})
	b = open(t, t.TempDir(), engine.Settings{}, func(s engine.Store) engine.Store { return slow{s, reading} })
	full := configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "reject"}
	source, _, err := b.Create(t.Context(), engine.Spec{ID: 1, Name: "source", Kind: "bloom", Params: full})
	if err != nil {
		t.Fatal(err)
	}
	target, _, err := b.CreateLike(t.Context(), engine.Spec{ID: 2, Name: "target", Kind: "bloom", Params: full}, source)
	if err != nil {
		t.Fatal(err)
	}
	add := func(f *engine.Filter, from, n int) {
		t.Helper()
		if _, err := f.Add(t.Context(), some(from, n), 0, make([]bool, n)); err != nil {
			t.Fatal(err)
		}
	}
	add(source, 10_000, 5000)
	add(target, 0, 4000)
	if _, err := b.Merge(t.Context(), "source", "target"); err != nil {
		t.Fatal(err)
	}
	if err := <-added; !errors.Is(err, engine.ErrFull) {
		t.Errorf("a batch for which there is no room: %v", err)
	}
	if n := target.Stats().Items; n > 9100 {
		t.Errorf("%d items in a filter for 10,000 that had 4,000, and got 5,000", n)
	}
	add(source, 40_000, 2000)
	if _, err := b.Merge(t.Context(), "source", "target"); !errors.Is(err, engine.ErrFull) {
		t.Errorf("a merge for which there is no room: %v", err)
	}
	if _, err := b.Merge(t.Context(), "target", "source"); !errors.Is(err, engine.ErrFull) {
		t.Errorf("the other way round: %v", err)
	}
}

// A merge for which there is no room is refused, though other batches end all the time.
func TestMergeIsRefusedBesideBatches(t *testing.T) {
	var target *engine.Filter
	reads := 0
	reading := func() {
		if reads++; reads > 3 {
			t.Fatal("the filters are counted again and again")
		}
		if n, err := target.Add(t.Context(), some(0, 10), 0, make([]bool, 10)); n != 0 || err != nil {
			t.Error(n, err)
		}
	}
	b := open(t, t.TempDir(), engine.Settings{}, func(s engine.Store) engine.Store { return slow{s, reading} })
	full := configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "reject"}
	source, _, err := b.Create(t.Context(), engine.Spec{ID: 1, Name: "source", Kind: "bloom", Params: full})
	if err != nil {
		t.Fatal(err)
	}
	if target, _, err = b.CreateLike(t.Context(), engine.Spec{ID: 2, Name: "target", Kind: "bloom", Params: full}, source); err != nil {
		t.Fatal(err)
	}
	for f, from := range map[*engine.Filter]int{target: 0, source: 10_000} {
		if _, err := f.Add(t.Context(), some(from, 6000), 0, make([]bool, 6000)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := b.Merge(t.Context(), "source", "target"); !errors.Is(err, engine.ErrFull) {
		t.Errorf("got %v, want ErrFull", err)
	}
}

// What is merged or loaded needs memory, as what is added does.
func TestMergeWithinTheMemory(t *testing.T) {
	const bytes = 320_000 // of a bit-map
	b := open(t, t.TempDir(), engine.Settings{MemoryBytes: bytes * 3 / 2})
	large := configs.Bloom{Capacity: 100_000, ErrorRate: 1e-4, OnFull: "warn"}
	source, _, err := b.Create(t.Context(), engine.Spec{ID: 1, Name: "source", Kind: "bloom", Params: large})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.CreateLike(t.Context(), engine.Spec{ID: 2, Name: "target", Kind: "bloom", Params: large}, source); err != nil {
		t.Fatal(err)
	}
	b.fresh("source", 1, 2, 3)
	if _, err := b.Merge(t.Context(), "source", "target"); !errors.Is(err, engine.ErrFull) {
		t.Errorf("a merge that needs more memory: %v", err)
	}
	if used, limit := b.Memory(); used > limit {
		t.Errorf("the filters take %d bytes of %d", used, limit)
	}
}

// A dump needs memory, as what is added does, and makes a filter once.
func TestLoadWithinTheMemory(t *testing.T) {
	params := configs.NewScaling(100_000, 0.01, 2, false).Complete(configs.Default().Defaults())
	a := open(t, t.TempDir(), engine.Settings{})
	f, _, err := a.Create(t.Context(), engine.Spec{ID: 1, Name: "a", Kind: "scaling", Params: params})
	if err != nil {
		t.Fatal(err)
	}
	a.fresh("a", 1)
	set := f.Set.(engine.Dumped)
	next, head, _ := set.Chunk(0)
	var bits []byte
	for next != 0 {
		var more []byte
		next, more, _ = set.Chunk(next)
		bits = append(bits, more...)
	}
	for _, room := range []bool{false, true} {
		limit := uint64(len(bits)) / 2
		if room {
			limit *= 5 // a second time, too
		}
		dir := t.TempDir()
		b := open(t, dir, engine.Settings{MemoryBytes: limit})
		load := func() error {
			return b.CreateLoaded(t.Context(), engine.Spec{ID: 1, Name: "b", Kind: "scaling", Params: params}, engine.Dump{Head: head, Bits: bits})
		}
		if err := load(); (err == nil) != room || err != nil && !errors.Is(err, engine.ErrFull) {
			t.Errorf("a dump of %d bytes where all may take %d: %v", len(bits), limit, err)
		}
		used, _ := b.Memory()
		if _, err := b.Lookup("b"); (err == nil) != room || (used == uint64(len(bits))) != room {
			t.Errorf("afterwards %v, %d bytes are used", err, used)
		}
		if err := load(); room && !errors.Is(err, engine.ErrConflict) {
			t.Errorf("a dump of a filter that is there: %v", err)
		}
		b.close()
		if b = open(t, dir, engine.Settings{}); room && b.fresh("b", 1) != 0 {
			t.Error("after a restart the item of the dump is new")
		}
	}
}
