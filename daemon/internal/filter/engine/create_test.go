package engine_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A filter of the settings without an id gets one, however it comes to be made.
func TestFiltersOfTheSettingsWithoutAnID(t *testing.T) {
	other := spec(0, "uri")
	other.Params = configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}
	for name, prepare := range map[string]func(a *shelf, s *engine.Settings) error{
		"neither store nor archive has it": func(*shelf, *engine.Settings) error { return nil },
		"the archive cannot be asked":      func(a *shelf, s *engine.Settings) error { a.down, s.StartEmpty = errors.New("down"), true; return nil },
		"what the archive has is empty":    func(a *shelf, _ *engine.Settings) error { return a.put(other, header(t, 7, 1)) },
		"the archive's has no id either":   func(a *shelf, _ *engine.Settings) error { return a.put(spec(0, "uri"), header(t, 7, 1), 1) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newShelf()
			s := engine.Settings{Filters: []engine.Spec{spec(0, "uri"), spec(0, "ip")}, Archive: a}
			if err := prepare(a, &s); err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			b := open(t, dir, s)
			if err := b.Reconcile(t.Context()); a.down == nil && err != nil {
				t.Fatal(err)
			}
			ids := map[int]bool{}
			for _, f := range b.Filters() {
				ids[f.ID] = true
			}
			if len(ids) != 2 || !ids[1000] || !ids[1001] {
				t.Errorf("ids %v, want 1000 and 1001\n%s", ids, b.log)
			}
			b.close()
			b = open(t, dir, s) // it is found under this id
			if f, err := b.Lookup("uri"); err != nil || !ids[f.ID] {
				t.Errorf("%+v, %v", f, err)
			}
		})
	}
}

// A filter that is made like another hashes as that one does, whatever the archive has of a former one of its name; if
// that had items, it is not made.
func TestCreateLikeWhatTheArchiveHas(t *testing.T) {
	for what, prepare := range map[string]func(a *shelf) error{
		"dropped": func(a *shelf) error { return a.LeaveTombstone(t.Context(), spec(1001, "uri"), header(t, 8, 2), true) },
		"empty":   func(a *shelf) error { return a.put(spec(1001, "uri"), header(t, 8, 2)) },
		"full":    func(a *shelf) error { return a.put(spec(1001, "uri"), header(t, 8, 2), 1) },
	} {
		t.Run(what, func(t *testing.T) {
			a := newShelf()
			b := open(t, t.TempDir(), engine.Settings{Archive: a})
			b.reconcile()
			like, _, err := b.Create(t.Context(), spec(1000, "like"))
			if err != nil {
				t.Fatal(err)
			}
			if err := prepare(a); err != nil {
				t.Fatal(err)
			}
			f, created, err := b.CreateLike(t.Context(), spec(0, "uri"), like)
			if what == "full" {
				if !errors.As(err, new(*engine.UnlikeError)) {
					t.Errorf("%+v, %v: want an UnlikeError", f, err)
				}
				if n := len(b.Filters()); n != 1 {
					t.Errorf("%d filters: the one that was refused is there", n)
				}
				return
			}
			if err != nil || !created || f.ID != 1001 || f.Seed() != like.Seed() || f.Stats().Generation != 3 {
				t.Errorf("%+v, %v, %v", f, created, err)
			}
		})
	}
}

// The id of a filter from the archive, like any other, is never given again.
func TestIDsOfRestoredFiltersAreNotGivenAgain(t *testing.T) {
	a := newShelf()
	if err := a.put(spec(1003, "pages"), header(t, 8, 1), 1); err != nil {
		t.Fatal(err)
	}
	b := open(t, t.TempDir(), engine.Settings{Archive: a})
	b.reconcile()
	if err := b.Drop(t.Context(), "pages"); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		f, _, err := b.Create(t.Context(), spec(0, fmt.Sprint("f", i)))
		if err != nil || f.ID == 1003 {
			t.Fatalf("%+v, %v", f, err)
		}
	}
}

// shared is a store that other daemons change too.
type shared struct {
	engine.Store
	changes chan engine.Change
	gone    map[string]bool
	dropped func()
	caught  func() // is called by CatchUp
}

func (s *shared) Changes() <-chan engine.Change { return s.changes }

func (s *shared) Holds(_ context.Context, spec engine.Spec) (bool, error) {
	return !s.gone[spec.Name], nil
}

func (s *shared) CatchUp(context.Context) error {
	if s.caught != nil {
		s.caught()
	}
	return nil
}

func (s *shared) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	if s.dropped != nil {
		s.dropped()
	}
	return s.Store.Clear(ctx, spec, b, serve)
}

func (s *shared) Drop(ctx context.Context, spec engine.Spec) error {
	err := s.Store.Drop(ctx, spec)
	if s.dropped != nil {
		s.dropped()
	}
	return err
}

// Whichever of two daemons writes a filter back for the first time while the other one drops or clears it:
// the archive keeps nothing of it.
func TestWritebackElsewhere(t *testing.T) {
	for _, change := range []string{"drop", "clear"} {
		for _, late := range []bool{false, true} { // the writeback ends after the change, and before it is known there
			t.Run(fmt.Sprint(change, late), func(t *testing.T) {
				a, s := newShelf(), &shared{changes: make(chan engine.Change)}
				b := open(t, t.TempDir(), engine.Settings{Archive: a}, func(inner engine.Store) engine.Store {
					s.Store = inner
					return s
				})
				b.reconcile()
				f, _, err := b.Create(t.Context(), spec(1000, "uri"))
				if err != nil {
					t.Fatal(err)
				}
				writeback := func() {
					if err := a.put(f.Spec, f.Set.(engine.BitMap).Header(), 1); err != nil {
						t.Error(err)
					}
				}
				if late {
					work := sync.WaitGroup{}
					ctx, stop := context.WithCancel(t.Context())
					defer func() { stop(); work.Wait() }()
					work.Go(func() { b.Follow(ctx) })
					s.changes <- engine.Change{} // it follows
					told := engine.Change{Spec: f.Spec, Gone: f.Set}
					if change == "clear" {
						source := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{f.Spec}})
						cleared, err := source.Clear(t.Context(), "uri")
						if err != nil {
							t.Fatal(err)
						}
						told.Set = cleared.Set
					}
					s.caught = func() {
						s.changes <- told
						s.changes <- engine.Change{} // it is taken
					}
					writeback()
					err = b.NoteArchived(t.Context(), f)
				} else {
					s.dropped = writeback
					if change == "drop" {
						err = b.Drop(t.Context(), "uri")
					} else {
						_, err = b.Clear(t.Context(), "uri")
					}
				}
				if err != nil {
					t.Fatal(err)
				}
				if m := a.maps["uri"]; m.Fill().Items != 0 || m.Header().Generation != 2 || a.dropped["uri"] != (change == "drop") {
					t.Errorf("the archive has %d items of generation %d, dropped: %v", m.Fill().Items, m.Header().Generation, a.dropped["uri"])
				}
			})
		}
	}
}

// What another daemon has written back of a filter, for the first time and while it was dropped, does not keep the one
// that was made again under its name meanwhile from being written back.
func TestDropOfAFilterThatAnotherDaemonHasMadeAgain(t *testing.T) {
	a, s := newShelf(), &shared{changes: make(chan engine.Change)}
	b := open(t, t.TempDir(), engine.Settings{Archive: a}, func(inner engine.Store) engine.Store {
		s.Store = inner
		return s
	})
	b.reconcile()
	f, _, err := b.Create(t.Context(), spec(1000, "uri"))
	if err != nil {
		t.Fatal(err)
	}
	work := sync.WaitGroup{}
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); work.Wait() }()
	work.Go(func() { b.Follow(ctx) })
	again := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{f.Spec}}).Filters()[0]
	s.dropped = func() {
		if err := a.put(f.Spec, f.Set.(engine.BitMap).Header(), 1); err != nil {
			t.Error(err)
		}
		s.changes <- engine.Change{Spec: again.Spec, Set: again.Set}
		s.changes <- engine.Change{} // it is taken
	}
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if now, err := b.Lookup("uri"); err != nil || now.Set != again.Set {
		t.Errorf("%v, %v: want the filter that was made again", now, err)
	}
	if m := a.maps["uri"]; m != nil {
		t.Errorf("the archive has %d items of the dropped filter", m.Fill().Items)
	}
}

// Filters that other daemons drop and make again are served in their new form, in any order of events.
func TestFiltersThatOthersMakeAgain(t *testing.T) {
	s := &shared{changes: make(chan engine.Change), gone: map[string]bool{}}
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}}, func(inner engine.Store) engine.Store {
		s.Store = inner
		return s
	})
	ctx, cancel := context.WithCancel(t.Context())
	followed := make(chan struct{})
	go func() {
		b.Follow(ctx)
		close(followed)
	}()
	defer func() { cancel(); <-followed }()
	source := open(t, t.TempDir(), engine.Settings{}) // has the sets that the other daemons make
	tell := func(id int, name string) engine.Set {
		t.Helper()
		f, _, err := source.Create(t.Context(), spec(id, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := source.Drop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		s.changes <- engine.Change{Spec: f.Spec, Set: f.Set}
		return f.Set
	}
	serves := func(ref string, set engine.Set) {
		t.Helper()
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(time.Millisecond) {
			if f, err := b.Lookup(ref); err == nil && f.Set == set || set == nil && err != nil {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s is not what others have made of it", ref)
			}
		}
	}
	// Made again with another id, without notice of the drop before.
	serves("5", tell(5, "news"))
	serves("6", tell(6, "news"))
	serves("5", nil)
	if n := len(b.Filters()); n != 2 {
		t.Errorf("%d filters, want uri and news", n)
	}
	// Made again by another daemon before the drop here has ended.
	var set engine.Set
	s.dropped = func() {
		set = tell(1, "uri")
		serves("uri", set)
	}
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	serves("uri", set)
	serves("1", set)
	// Damaged by another daemon, and dropped by it.
	bad := engine.Quarantined{ID: 9, Name: "bad", Where: "there", Cause: errors.New("damaged")}
	s.changes <- engine.Change{Bad: &bad}
	s.changes <- engine.Change{} // empty; the previous change has been applied
	if _, err := b.Lookup("9"); !errors.As(err, new(*engine.QuarantinedError)) {
		t.Errorf("got %v, want a QuarantinedError", err)
	}
	s.changes <- engine.Change{Mended: &bad}
	s.changes <- engine.Change{}
	if _, err := b.Lookup("bad"); !errors.As(err, new(*engine.UnknownFilterError)) {
		t.Errorf("got %v, want an UnknownFilterError", err)
	}
	// Damaged while it is served.
	bad = engine.Quarantined{ID: 1, Name: "uri", Where: "there", Cause: errors.New("damaged")}
	s.changes <- engine.Change{Spec: spec(1, "uri"), Gone: set, Bad: &bad}
	s.changes <- engine.Change{}
	for _, ref := range []string{"uri", "1"} {
		if _, err := b.Lookup(ref); !errors.As(err, new(*engine.QuarantinedError)) {
			t.Errorf("%s: %v, want a QuarantinedError", ref, err)
		}
	}
	s.changes <- engine.Change{Mended: &bad}
	s.changes <- engine.Change{Spec: spec(1, "uri"), Set: set}
	serves("uri", set)
	serves("1", set)
	// Dropped by another daemon without notice to this one: it is made, not found.
	s.gone["uri"] = true
	f, created, err := b.Create(t.Context(), spec(1, "uri"))
	if err != nil || !created || f.Set == set {
		t.Errorf("%+v, %v, %v: want a new filter", f, created, err)
	}
}
