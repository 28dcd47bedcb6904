package engine_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// shelf is an engine.Archive in memory.
type shelf struct {
	down    error            // the error of a query
	damaged error            // the error of a restore, after half of the bits
	bad     map[string]error // why versions of filters cannot be used
	maps    map[string]*bloom.Map
	specs   map[string]engine.Spec
	dropped map[string]bool // the map is a tombstone
}

func newShelf() *shelf {
	return &shelf{maps: map[string]*bloom.Map{}, specs: map[string]engine.Spec{}, dropped: map[string]bool{}}
}

func (s *shelf) Newest(context.Context) ([]engine.Archived, error) {
	if s.down != nil {
		return nil, s.down
	}
	var all []engine.Archived
	for name, err := range s.bad {
		all = append(all, engine.Archived{Spec: engine.Spec{Name: name}, Err: err})
	}
	for name, m := range s.maps {
		all = append(all, engine.Archived{Spec: s.specs[name], Header: m.Header(), Items: m.Fill().Items, Created: time.Unix(1700000000, 0), Dropped: s.dropped[name],
			Restore:   func(ctx context.Context, into engine.Sink) error { return s.restore(ctx, m, into) },
			SwitchOff: func(context.Context) error { delete(s.maps, name); return nil }})
	}
	return all, nil
}

func (s *shelf) restore(ctx context.Context, m *bloom.Map, into engine.Sink) error {
	buf := make([]byte, bloom.StripeBytes)
	for i := range m.Header().Stripes() {
		if err := into.MergeStripe(ctx, i, m.Stripe(i, buf)); err != nil {
			return err
		}
	}
	if s.damaged != nil {
		return s.damaged
	}
	return into.Commit(ctx)
}

func (s *shelf) LeaveTombstone(_ context.Context, spec engine.Spec, h bloom.Header, dropped bool) error {
	err := s.put(spec, h)
	s.dropped[spec.Name] = dropped
	return err
}

func (s *shelf) put(spec engine.Spec, h bloom.Header, items ...uint64) error {
	m, err := bloom.New(h)
	if err != nil {
		return err
	}
	m.Add(keys(items), make([]bool, len(items)))
	s.maps[spec.Name], s.specs[spec.Name], s.dropped[spec.Name] = m, spec, false
	return nil
}

func keys(items []uint64) []bloom.Hash {
	var all []bloom.Hash
	for _, n := range items {
		all = append(all, bloom.Hash{Lo: n * 0x9e3779b97f4a7c15, Hi: n * 0xbf58476d1ce4e5b9})
	}
	return all
}

func spec(id int, name string) engine.Spec {
	return engine.Spec{ID: id, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "warn"}}
}

func header(t *testing.T, seed, generation uint64) bloom.Header {
	t.Helper()
	h, err := bloom.NewHeader(10_000, 1e-4, seed, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	h.Generation = generation
	return h
}

type bench struct {
	*engine.Engine
	t     *testing.T
	store *embedded.Store
	log   *bytes.Buffer
}

func open(t *testing.T, dir string, s engine.Settings, wrap ...func(engine.Store) engine.Store) *bench {
	t.Helper()
	b := &bench{t: t, log: &bytes.Buffer{}}
	s.Log = slog.New(slog.NewTextHandler(b.log, nil))
	var err error
	if b.store, err = embedded.Open(embedded.Options{Dir: dir, Durability: "always", Log: s.Log}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.store.Close() })
	var store engine.Store = b.store
	for _, w := range wrap {
		store = w(store)
	}
	if b.Engine, err = engine.Open(t.Context(), store, s); err != nil {
		t.Fatal(err)
	}
	return b
}

func (b *bench) close() {
	b.t.Helper()
	if err := b.store.Close(); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) reconcile() {
	b.t.Helper()
	if err := b.Reconcile(b.t.Context()); err != nil {
		b.t.Fatalf("reconcile: %v\n%s", err, b.log)
	}
	if err := b.Ready(b.t.Context()); err != nil {
		b.t.Errorf("reconciled, but not ready: %v", err)
	}
}

// fresh adds items and returns how many were new.
func (b *bench) fresh(name string, items ...uint64) int {
	b.t.Helper()
	f, err := b.Lookup(name)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.log)
	}
	n, err := f.Add(b.t.Context(), keys(items), 0, make([]bool, len(items)))
	if err != nil {
		b.t.Fatal(err)
	}
	return n
}

func (b *bench) wantLog(texts ...string) {
	b.t.Helper()
	for _, text := range texts {
		if !strings.Contains(b.log.String(), text) {
			b.t.Errorf("log lacks %q:\n%s", text, b.log)
		}
	}
}

func (b *bench) wantWaiting(ref string, cause error) {
	b.t.Helper()
	var waits *engine.RestoringError
	if _, err := b.Lookup(ref); !errors.As(err, &waits) || cause != nil && !errors.Is(err, cause) {
		b.t.Errorf("Lookup(%s): got %v, want a filter that waits for %v", ref, err, cause)
	}
	if err := b.Ready(b.t.Context()); err == nil {
		b.t.Error("ready, with filters that wait")
	}
}
