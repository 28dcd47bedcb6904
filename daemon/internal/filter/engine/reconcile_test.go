package engine_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

func TestAFreshStoreTakesAllThatIsArchived(t *testing.T) {
	a := newShelf()
	if err := errors.Join(a.put(spec(1, "uri"), header(t, 7, 3), 1, 2, 3), a.put(spec(1000, "pages"), header(t, 8, 1), 4)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	want := []engine.Spec{spec(1, "uri"), spec(2, "ip")}
	b := open(t, dir, engine.Settings{Filters: want, Archive: a})
	b.wantWaiting("uri", nil)
	b.wantWaiting("2", nil)
	b.wantWaiting("pages", nil) // it is not yet known to be missing
	b.reconcile()
	if n := b.fresh("uri", 1, 2, 3, 9); n != 1 {
		t.Errorf("uri: %d new, want 1", n)
	}
	if n := b.fresh("1000", 4, 5); n != 1 {
		t.Errorf("pages: %d new, want 1", n)
	}
	if f, _ := b.Lookup("uri"); f.Seed() != 7 || f.Stats().Generation != 3 || f.Stats().LastWriteback.Unix() != 1700000000 {
		t.Errorf("uri: seed %d, %+v", f.Seed(), f.Stats())
	}
	b.wantLog("filter starts EMPTY: neither store nor archive has it\" filter=ip", "restored from the archive")
	var unknown *engine.UnknownFilterError
	if _, err := b.Lookup("nobody"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	// The store has it: the archive is not needed.
	b.close()
	a.down = errors.New("down")
	b = open(t, dir, engine.Settings{Filters: want, Archive: a})
	if n := b.fresh("uri", 1, 2, 3, 9); n != 0 {
		t.Errorf("uri from the store: %d new, want 0", n)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if err := b.Reconcile(t.Context()); !errors.Is(err, a.down) {
		t.Errorf("reconcile: %v", err)
	}
}

// One filter's version that cannot be used, such as a newer program's, keeps only that filter waiting.
func TestOthersDoNotWaitForABadVersion(t *testing.T) {
	a := newShelf()
	newer := errors.New("format 9")
	a.bad = map[string]error{"ip": newer, "old": newer}
	if err := a.put(spec(1, "uri"), header(t, 7, 1), 1); err != nil {
		t.Fatal(err)
	}
	want := []engine.Spec{spec(1, "uri"), spec(2, "ip")}
	b := open(t, t.TempDir(), engine.Settings{Filters: want, Archive: a})
	if err := b.Reconcile(t.Context()); !errors.Is(err, newer) {
		t.Errorf("reconcile: %v, want that it is tried again", err)
	}
	if n := b.fresh("uri", 1, 2); n != 1 {
		t.Errorf("uri: %d new, want 1", n)
	}
	b.wantWaiting("ip", newer)
	if _, _, err := b.Create(t.Context(), spec(1000, "pages")); err != nil {
		t.Errorf("another one: %v", err)
	}
	var waits *engine.RestoringError
	if _, _, err := b.Create(t.Context(), spec(1001, "old")); !errors.As(err, &waits) || !errors.Is(err, newer) {
		t.Errorf("one of the same: %v", err)
	}
	a.bad = nil
	b.reconcile()
	a.bad = map[string]error{"old": newer} // a filter that is not wanted here
	b.reconcile()
	// Settings that say not to wait.
	a.bad = map[string]error{"ip": newer}
	b = open(t, t.TempDir(), engine.Settings{Filters: want, Archive: a, StartEmpty: true})
	if err := b.Reconcile(t.Context()); !errors.Is(err, newer) {
		t.Errorf("reconcile: %v", err)
	}
	if n := b.fresh("ip", 1) + b.fresh("uri", 1, 2); n != 2 {
		t.Errorf("%d new, want 2", n)
	}
}

func TestFiltersWaitForTheArchive(t *testing.T) {
	a := newShelf()
	a.down = errors.New("down")
	if err := a.put(spec(1, "uri"), header(t, 7, 1), 1); err != nil {
		t.Fatal(err)
	}
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	if err := b.Reconcile(t.Context()); !errors.Is(err, a.down) {
		t.Errorf("reconcile: %v", err)
	}
	b.wantWaiting("uri", a.down)
	for _, s := range []engine.Spec{spec(0, "uri"), spec(0, "other")} {
		var waits *engine.RestoringError
		if _, _, err := b.Create(t.Context(), s); !errors.As(err, &waits) {
			t.Errorf("create %s: got %v", s.Name, err)
		}
	}
	a.down = nil
	// A damaged version is not served, in whole or in part.
	a.damaged = errors.New("damaged")
	if err := b.Reconcile(t.Context()); !errors.Is(err, a.damaged) {
		t.Errorf("reconcile: %v", err)
	}
	b.wantWaiting("uri", a.damaged)
	a.damaged = nil
	b.reconcile()
	if n := b.fresh("uri", 1, 2); n != 1 {
		t.Errorf("%d new, want 1", n)
	}
}

func TestStartEmptyIfTheSettingsSaySo(t *testing.T) {
	a := newShelf()
	a.down = errors.New("down")
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a, StartEmpty: true})
	if err := b.Reconcile(t.Context()); !errors.Is(err, a.down) {
		t.Errorf("reconcile: %v", err)
	}
	if n := b.fresh("uri", 1); n != 1 {
		t.Errorf("%d new, want 1", n)
	}
	b.wantLog("filter starts EMPTY: the archive cannot be asked")
	// When it is back, its different bit-map is neither merged nor ignored silently.
	a.down = nil
	if err := a.put(spec(1, "uri"), header(t, 7, 1), 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	b.reconcile()
	if n := b.fresh("uri", 1, 2); n != 1 {
		t.Errorf("%d new, want 1", n)
	}
	b.wantLog("the archive has another bit-map under the name")
	// Only a drop makes it available.
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.Create(t.Context(), spec(1, "uri")); err != nil {
		t.Fatal(err)
	}
	if n := b.fresh("uri", 1, 2, 3, 4); n != 1 {
		t.Errorf("%d new, want 1", n)
	}
}

// A store that was rolled back gets its lost data from the archive.
func TestLostItemsArePutBack(t *testing.T) {
	a := newShelf()
	dir := t.TempDir()
	want := []engine.Spec{spec(1, "uri")}
	if err := a.put(spec(1, "uri"), header(t, 7, 1), 1); err != nil {
		t.Fatal(err)
	}
	b := open(t, dir, engine.Settings{Filters: want, Archive: a})
	b.reconcile()
	b.close()
	if err := a.put(spec(1, "uri"), header(t, 7, 1), 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the restored bits are durable
		b = open(t, dir, engine.Settings{Filters: want, Archive: a})
		b.reconcile()
		if n := b.fresh("uri", 1, 2, 3); n != 0 {
			t.Errorf("%d new, want 0", n)
		}
		b.close()
	}
	if strings.Contains(b.log.String(), "lost items") {
		t.Errorf("put back twice:\n%s", b.log)
	}
}

// A filter that is only in the archive comes to a store that holds others when it is
// requested.
func TestCreateRestores(t *testing.T) {
	a := newShelf()
	dir := t.TempDir()
	b := open(t, dir, engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	b.reconcile()
	b.close()
	if err := a.put(spec(50, "pages"), header(t, 8, 1), 1); err != nil {
		t.Fatal(err)
	}
	b = open(t, dir, engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	b.reconcile()
	b.wantLog("filter is in the archive only")
	var unknown *engine.UnknownFilterError
	if _, err := b.Lookup("pages"); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	other := spec(0, "pages")
	other.Params = configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}
	if _, _, err := b.Create(t.Context(), other); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("other parameters: got %v", err)
	}
	f, created, err := b.Create(t.Context(), spec(0, "pages"))
	if err != nil || !created || f.ID != 50 {
		t.Fatalf("got %+v, %v, %v", f, created, err)
	}
	if n := b.fresh("pages", 1, 2); n != 1 {
		t.Errorf("%d new, want 1", n)
	}
}

// A dropped filter stays dropped: at the next start, on another machine, and when a
// filter with its name is made again, even with other parameters.
func TestDroppedFiltersStayDropped(t *testing.T) {
	a := newShelf()
	if err := a.put(spec(1, "uri"), header(t, 7, 4), 1, 2); err != nil {
		t.Fatal(err)
	}
	want := []engine.Spec{spec(1, "uri")}
	b := open(t, t.TempDir(), engine.Settings{Filters: want, Archive: a})
	b.reconcile()
	a.down = errors.New("down")
	var waits *engine.RestoringError
	if err := b.Drop(t.Context(), "uri"); !errors.As(err, &waits) {
		t.Errorf("drop that the archive cannot be told of: got %v", err)
	}
	if n := b.fresh("uri", 1); n != 0 {
		t.Error("a drop that failed forgot items")
	}
	a.down = nil
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	again := spec(1, "uri")
	again.Params = configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}
	f, _, err := b.Create(t.Context(), again)
	if err != nil || f.Stats().Generation != 6 {
		t.Fatalf("made again: generation %d, %v; want 6", f.Stats().Generation, err)
	}
	if n := b.fresh("uri", 1, 2); n != 2 {
		t.Errorf("made again: %d new, want 2", n)
	}
	b = open(t, t.TempDir(), engine.Settings{Filters: want, Archive: a})
	b.reconcile()
	if n := b.fresh("uri", 1, 2); n != 2 {
		t.Errorf("elsewhere: %d new, want 2", n)
	}
}

// stuck is a store that does not drop filters while it has an error.
type stuck struct {
	*embedded.Store
	err error
}

func (s *stuck) Drop(ctx context.Context, spec engine.Spec) error {
	if s.err != nil {
		return s.err
	}
	return s.Store.Drop(ctx, spec)
}

// A drop that breaks off when the archive was told of it loses no item, also when the daemon is started
// again, and can be repeated.
func TestADropThatBreaksOffIsRepeated(t *testing.T) {
	a, dir := newShelf(), t.TempDir()
	store := &stuck{err: errors.New("disk error")}
	begin := func() *bench {
		return open(t, dir, engine.Settings{Archive: a}, func(s engine.Store) engine.Store {
			store.Store = s.(*embedded.Store)
			return store
		})
	}
	b := begin()
	b.reconcile()
	f, _, err := b.Create(t.Context(), spec(1000, "uri"))
	if err != nil {
		t.Fatal(err)
	}
	b.fresh("uri", 1, 2)
	if err := a.put(f.Spec, f.Set.(engine.BitMap).Header(), 1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := b.Drop(t.Context(), "uri"); !errors.Is(err, store.err) || !strings.Contains(err.Error(), "drop it again") {
			t.Errorf("a drop that breaks off: %v", err)
		}
		if n := b.fresh("uri", 1, 2); n != 0 {
			t.Errorf("%d items are lost", n)
		}
		b.close()
		b = begin()
		b.reconcile()
		b.wantLog("the archive says that this filter was dropped")
	}
	store.err = nil
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	b.close()
	b = begin()
	b.reconcile()
	if all := b.Filters(); len(all) != 0 {
		t.Errorf("it is back: %v", all)
	}
}

// That a start does not wait for the archive does not let a drop or a clear pass by it, which would be
// undone when the archive is back.
func TestDropAndClearWaitForTheArchive(t *testing.T) {
	a := newShelf()
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a, StartEmpty: true})
	b.reconcile()
	f := b.filter("uri")
	if err := a.put(f.Spec, f.Set.(engine.BitMap).Header(), 1); err != nil {
		t.Fatal(err)
	}
	a.down = errors.New("down")
	if err := b.Drop(t.Context(), "uri"); !errors.Is(err, a.down) {
		t.Errorf("drop: %v", err)
	}
	if _, err := b.Clear(t.Context(), "uri"); !errors.Is(err, a.down) {
		t.Errorf("clear: %v", err)
	}
	if b.filter("uri") != f {
		t.Error("it is another one")
	}
}

// A filter that nobody lists, and that was dropped, is not made by a start that finds its store empty. A version
// without items of a filter that is there is, and so is a tombstone of earlier versions of urifilter.
func TestNoStartMakesADroppedFilter(t *testing.T) {
	a := newShelf()
	b := open(t, t.TempDir(), engine.Settings{Archive: a})
	b.reconcile()
	for i, name := range []string{"full", "empty", "again", "adopted", "kept", "cleared"} {
		f, _, err := b.Create(t.Context(), spec(1000+i, name))
		if err != nil {
			t.Fatal(err)
		}
		var items []uint64
		if name != "empty" && name != "kept" {
			items = []uint64{1}
		}
		if err := a.put(f.Spec, f.Set.(engine.BitMap).Header(), items...); err != nil {
			t.Fatal(err)
		}
	}
	drop := func(b *bench, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := b.Drop(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	drop(b, "full", "empty", "again", "adopted")
	for i, name := range []string{"again", "adopted"} {
		s := spec(1002+i, name)
		if name == "again" { // it has not the bit-map of the tombstone
			s.Params = configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}
		}
		if _, _, err := b.Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		drop(b, name)
	}
	if _, err := b.Clear(t.Context(), "cleared"); err != nil {
		t.Fatal(err)
	}
	want := []string{"cleared", "kept"}
	b = open(t, t.TempDir(), engine.Settings{Archive: a})
	for range 2 {
		b.reconcile()
		var got []string
		for _, f := range b.Filters() {
			got = append(got, f.Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("made: %v, want %v", got, want)
		}
	}
	// What the settings list is made, and what a caller makes.
	b = open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1000, "full")}, Archive: a})
	b.wantWaiting("full", nil)
	b.reconcile()
	if n := b.fresh("full", 1); n != 1 {
		t.Error("a dropped item is seen")
	}
	if f, _, err := b.Create(t.Context(), spec(0, "empty")); err != nil || f.ID != 1001 {
		t.Errorf("made again: %+v, %v", f, err)
	}
}

// Ids of filters that wait are not given to others.
func TestIDsOfWaitingFiltersAreTaken(t *testing.T) {
	a := newShelf()
	if err := errors.Join(a.put(spec(1000, "pages"), header(t, 8, 1), 1), a.put(spec(1001, "more"), header(t, 9, 1), 1)); err != nil {
		t.Fatal(err)
	}
	a.damaged = errors.New("damaged")
	b := open(t, t.TempDir(), engine.Settings{Archive: a})
	if err := b.Reconcile(t.Context()); err == nil {
		t.Fatal("reconciled")
	}
	f, _, err := b.Create(t.Context(), spec(0, "mine"))
	if err != nil || f.ID != 1002 {
		t.Fatalf("got %+v, %v; want id 1002", f, err)
	}
	if _, _, err := b.Create(t.Context(), spec(1001, "yours")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("got %v", err)
	}
	if got := b.Waiting(); !slices.Equal(got, []string{"more", "pages"}) {
		t.Errorf("waiting: %v", got)
	}
}
