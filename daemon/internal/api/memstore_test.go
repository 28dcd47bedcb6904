package api

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

// memStore is an engine.Store that remembers until the test ends, and fails as told.
type memStore struct {
	fault  atomic.Pointer[error] // what Add, Has, Create and Drop answer
	after  atomic.Int64          // batches that still succeed before fault counts
	down   atomic.Pointer[error] // what Ready answers
	before atomic.Pointer[func()]

	mu   sync.Mutex
	sets map[engine.Spec]*memSet

	elapsed atomic.Int64 // nanoseconds, of the clock by which items expire
}

// memTimed is a timing filter of a memStore.
type memTimed struct {
	*timing.Table
	store    *memStore
	identity engine.Identity
	expire   time.Duration
}

func (m *memTimed) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	return m.AddFor(ctx, keys, m.expire, fresh)
}

func (m *memTimed) AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	if err := cmp.Or(m.store.err(), ctx.Err()); err != nil {
		return 0, err
	}
	return m.Table.Add(keys, expire, fresh)
}

func (m *memTimed) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	if err := cmp.Or(m.store.err(), ctx.Err()); err != nil {
		return err
	}
	m.Table.Has(keys, fresh)
	return nil
}

func (m *memTimed) Seed() uint64 { return m.identity.Seed }

func (m *memTimed) Stats() engine.Stats {
	for range timing.Parts { // so that tests need not wait
		_ = m.Sweep()
	}
	st := m.Table.Stats()
	return engine.Stats{Items: st.Items, Bytes: st.Bytes, Generation: m.identity.Generation}
}

// pass lets time pass for timing filters.
func (st *memStore) pass(d time.Duration) { st.elapsed.Add(int64(d)) }

type memSet struct {
	*bloom.Map
	store     *memStore
	writeback atomic.Pointer[time.Time]
}

func (st *memStore) fail(err error)                { st.fault.Store(&err) }
func (st *memStore) notReady(err error)            { st.down.Store(&err) }
func (st *memStore) beforeEachBatch(do func())     { st.before.Store(&do) }
func (st *memStore) Failed() <-chan struct{}       { return nil }
func (st *memStore) Changes() <-chan engine.Change { return nil }
func (st *memStore) Close() error                  { return nil }
func (st *memStore) Ready(context.Context) error   { return load(&st.down) }

func load(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

func (st *memStore) err() error {
	if do := st.before.Load(); do != nil {
		(*do)()
	}
	if err := load(&st.fault); err != nil && st.after.Add(-1) < 0 {
		return err
	}
	return nil
}

func (st *memStore) Load(context.Context) (map[engine.Spec]engine.Set, error) {
	return map[engine.Spec]engine.Set{}, nil
}

func (st *memStore) Create(_ context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	if err := st.err(); err != nil {
		return nil, err
	}
	if spec.Kind == "timing" {
		clock := timing.Clock{Elapsed: func() time.Duration { return time.Duration(st.elapsed.Load()) }, Wall: time.Now}
		return &memTimed{timing.New(clock), st, b, spec.Expire()}, nil
	}
	h, err := engine.BitMapHeader(spec, b)
	if err != nil {
		return nil, err
	}
	m, err := bloom.New(h)
	if err != nil {
		return nil, err
	}
	set := &memSet{Map: m, store: st}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.sets == nil {
		st.sets = map[engine.Spec]*memSet{}
	}
	st.sets[spec] = set
	return set, nil
}

func (st *memStore) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	set, err := st.Create(ctx, spec, b)
	if err == nil {
		serve(set)
	}
	return err
}

func (st *memStore) Drop(_ context.Context, spec engine.Spec) error { return st.err() }

func (m *memSet) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	if err := cmp.Or(m.store.err(), ctx.Err()); err != nil {
		return 0, err
	}
	return m.Map.Add(keys, fresh), nil
}

func (m *memSet) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	if err := cmp.Or(m.store.err(), ctx.Err()); err != nil {
		return err
	}
	m.Map.Has(keys, fresh)
	return nil
}

func (m *memSet) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	return m.Map.Stripe(i, buf), nil
}

func (m *memSet) MergeStripe(_ context.Context, i int, data []byte) error {
	return m.Map.MergeStripe(i, data)
}

func (m *memSet) Commit(context.Context) error { return nil }

func (m *memSet) WrittenBack(at time.Time) { m.writeback.Store(&at) }

func (m *memSet) Seed() uint64 { return m.Header().Seed }

func (m *memSet) Stats() engine.Stats {
	fill := m.Fill()
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: m.Header().Bytes(), Generation: m.Header().Generation}
	if t := m.writeback.Load(); t != nil {
		st.LastWriteback = *t
	}
	return st
}
