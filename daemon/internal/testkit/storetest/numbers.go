package storetest

import (
	"log/slog"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// testNumbers checks that an id is never given twice, neither after a drop nor after a restart,
// and that a filter of the settings keeps its own.
func testNumbers(t *testing.T, o Opener, s Sample) {
	settings := []engine.Spec{s.spec("uri", 1, 1000)}
	begin := func() (*engine.Engine, engine.Store) {
		t.Helper()
		store := open(t, o)
		e, err := engine.Open(t.Context(), store, engine.Settings{Filters: settings, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return e, store
	}
	create := func(e *engine.Engine, name string, id int) int {
		t.Helper()
		f, created, err := e.Create(t.Context(), s.spec(name, id, 1000))
		if err != nil || !created {
			t.Fatalf("create %s: %v, %v", name, created, err)
		}
		return f.ID
	}
	drop := func(e *engine.Engine, name string) {
		t.Helper()
		if err := e.Drop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	e, store := begin()
	given := []int{create(e, "aa", 0)}
	drop(e, "aa")
	given = append(given, create(e, "bb", 0))
	drop(e, "bb")
	given = append(given, create(e, "bb", 0), create(e, "chosen", 5000))
	drop(e, "bb")
	drop(e, "chosen")
	closeStore(t, store)

	e, store = begin()
	defer closeStore(t, store)
	given = append(given, create(e, "cc", 0), create(e, "dd", 0))
	for i := 1; i < len(given); i++ {
		if given[i] <= given[i-1] {
			t.Fatalf("ids %v: one is given again, or they do not grow", given)
		}
	}
	drop(e, "uri")
	if id := create(e, "uri", 0); id != 1 {
		t.Errorf("a filter of the settings that was dropped and made again has the id %d, want 1", id)
	}
}
