package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// No archive brings back the items from before a clear, whenever the process ends.
func TestClearTellsTheArchive(t *testing.T) {
	dir, a := t.TempDir(), newShelf()
	b := open(t, dir, engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	b.reconcile()
	f := b.filter("uri")
	h := f.Set.(engine.BitMap).Header()
	if err := a.put(f.Spec, h, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	a.down = errors.New("no route")
	if _, err := b.Clear(t.Context(), "uri"); err == nil || b.filter("uri") != f {
		t.Fatalf("an archive that cannot be told: %v", err)
	}
	a.down = nil
	cleared, err := b.Clear(t.Context(), "1")
	if err != nil {
		t.Fatal(err)
	}
	if cleared.Spec != f.Spec || cleared.Life() != f.Life() || cleared.Stats().Generation != h.Generation+1 || b.filter("uri") != cleared {
		t.Errorf("cleared: %+v, generation %d", cleared.Spec, cleared.Stats().Generation)
	}
	if m := a.maps["uri"]; m.Fill().Items != 0 || m.Header() != cleared.Set.(engine.BitMap).Header() {
		t.Errorf("the archive has %+v", m.Header())
	}
	// The process ended before it updated the archive.
	if err := a.put(f.Spec, h, 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	b.reconcile()
	if got := b.filter("uri").Stats(); got.Items != 0 || got.Generation != h.Generation+1 {
		t.Errorf("after a restart: %+v", got)
	}
	if m := a.maps["uri"]; m.Fill().Items != 0 || m.Header().Generation != h.Generation+1 {
		t.Errorf("after a restart the archive has %d items of generation %d", m.Fill().Items, m.Header().Generation)
	}
}

// A set may be gone before the engine knows the next one.
func TestSuccessor(t *testing.T) {
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}})
	f := b.filter("uri")
	next := make(chan *engine.Filter)
	go func() {
		now, err := b.Successor(t.Context(), f)
		if err != nil {
			t.Error(err)
		}
		next <- now
	}()
	cleared, err := b.Clear(t.Context(), "uri")
	if err != nil {
		t.Fatal(err)
	}
	if now := <-next; now != cleared || now.Life() != f.Life() {
		t.Error("the successor is not the filter that was cleared")
	}
	if _, err := f.Add(t.Context(), keys([]uint64{1}), 0, make([]bool, 1)); !errors.As(err, new(*engine.UnknownFilterError)) {
		t.Errorf("Add to what was cleared: %v", err)
	}
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Successor(t.Context(), cleared); !errors.As(err, new(*engine.UnknownFilterError)) {
		t.Errorf("the successor of what was dropped: %v", err)
	}
	made, _, err := b.Create(t.Context(), f.Spec)
	if err != nil || made.Life() == f.Life() {
		t.Errorf("made again: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := b.Successor(ctx, made); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has left: %v", err)
	}
	b.Stop()
	if _, err := b.Successor(t.Context(), made); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("it is not known what became of it: %v", err)
	}
}

func (b *bench) filter(name string) *engine.Filter {
	b.t.Helper()
	f, err := b.Lookup(name)
	if err != nil {
		b.t.Fatal(err)
	}
	return f
}
