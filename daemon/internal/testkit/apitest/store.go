package apitest

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/table"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// MemStore is an engine.Store that remembers until the test ends, and fails on request.
type MemStore struct {
	fault  atomic.Pointer[error] // the error of Add, Has, Create and Drop
	After  atomic.Int64          // batches that still succeed before fault takes effect
	down   atomic.Pointer[error] // the error of Ready
	before atomic.Pointer[func()]

	mu   sync.Mutex
	Sets map[engine.Spec]*memSet

	elapsed atomic.Int64 // nanoseconds on the clock by which items expire
}

// memKeys is an exact filter of a MemStore.
type memKeys struct {
	kind.Reserving
	store *MemStore
}

var _ engine.Reserving = (*memKeys)(nil)

func (m *memKeys) Memory() uint64 { return m.Bytes() }

func (m *memKeys) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	if err := m.store.take(ctx); err != nil {
		return 0, err
	}
	return m.Reserving.Add(keys, fresh)
}

func (m *memKeys) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	err := m.store.take(ctx)
	if err == nil {
		m.Reserving.Has(keys, fresh)
	}
	return err
}

func (m *memKeys) Forget(ctx context.Context, keys []bloom.Hash) (int, error) {
	if err := m.store.take(ctx); err != nil {
		return 0, err
	}
	return m.Reserving.Forget(keys), nil
}

func (m *memKeys) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (engine.Reserved, error) {
	if err := m.store.take(ctx); err != nil {
		return engine.Reserved{}, err
	}
	return m.Reserving.Reserve(id, keys, lease, fresh), nil
}

func (m *memKeys) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	if err := m.store.take(ctx); err != nil {
		return engine.Settled{}, err
	}
	if keys == nil {
		keys = m.Committable(id)
		lost = make([]bool, len(keys))
	}
	return m.Reserving.Commit(id, keys, expire, lost)
}

func (m *memKeys) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	if err := m.store.take(ctx); err != nil {
		return engine.Settled{}, err
	}
	if keys == nil {
		keys = m.Releasable(id)
		lost = make([]bool, len(keys))
	}
	return m.Reserving.Release(id, keys, lost)
}

// memTimed is a timing filter of a MemStore.
type memTimed struct {
	memKeys
	entries kind.Expiring
	expire  time.Duration
}

var _ engine.Timed = (*memTimed)(nil)

func (m *memTimed) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	return m.AddFor(ctx, keys, m.expire, fresh)
}

func (m *memTimed) AddFor(ctx context.Context, keys []bloom.Hash, expire time.Duration, fresh []bool) (int, error) {
	if err := m.store.take(ctx); err != nil {
		return 0, err
	}
	return m.entries.AddFor(keys, expire, fresh)
}

func (m *memTimed) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, expire time.Duration, lost []bool) (engine.Settled, error) {
	return m.memKeys.Commit(ctx, id, keys, cmp.Or(expire, m.expire), lost)
}

func (m *memTimed) Stats() engine.Stats {
	for range table.Parts { // so that tests need not wait
		_ = m.Sweep()
	}
	return m.entries.Stats()
}

// memTexts is a simhash filter of a MemStore.
type memTexts struct {
	kind.Similar
	store *MemStore
}

func (m *memTexts) Near(ctx context.Context, docs []engine.Document, how engine.Nearness, found []engine.Comparison) error {
	if err := m.store.take(ctx); err != nil {
		return err
	}
	m.Similar.Near(docs, how, found)
	return nil
}

func (m *memTexts) Memory() uint64 { return m.Bytes() }

func (m *memTexts) Add(context.Context, []bloom.Hash, []bool) (int, error) {
	return 0, engine.ErrKeepsTexts
}

func (m *memTexts) Has(context.Context, []bloom.Hash, []bool) error { return engine.ErrKeepsTexts }

type noJournal struct{}

func (noJournal) Append([]bloom.Hash, []bool) {}
func (noJournal) AppendEntries([]bloom.Hash)  {}

// Pass lets time pass for timing filters.
func (st *MemStore) Pass(d time.Duration) { st.elapsed.Add(int64(d)) }

type memSet struct {
	kind.BitMap
	store     *MemStore
	Writeback atomic.Pointer[time.Time]
}

// Fail makes the store fail from now on.
func (st *MemStore) Fail(err error) { st.fault.Store(&err) }

// NotReady makes the store report that it is not ready.
func (st *MemStore) NotReady(err error) { st.down.Store(&err) }

// BeforeEachBatch makes the store call do before it takes a batch.
func (st *MemStore) BeforeEachBatch(do func())     { st.before.Store(&do) }
func (st *MemStore) Failed() <-chan struct{}       { return nil }
func (st *MemStore) Changes() <-chan engine.Change { return nil }
func (st *MemStore) Close() error                  { return nil }
func (st *MemStore) Ready(context.Context) error   { return load(&st.down) }

func load(p *atomic.Pointer[error]) error {
	if err := p.Load(); err != nil {
		return *err
	}
	return nil
}

// take is called for each batch.
func (st *MemStore) take(ctx context.Context) error { return cmp.Or(st.err(), ctx.Err()) }

func (st *MemStore) err() error {
	if do := st.before.Load(); do != nil {
		(*do)()
	}
	if err := load(&st.fault); err != nil && st.After.Add(-1) < 0 {
		return err
	}
	return nil
}

func (st *MemStore) Load(context.Context) (map[engine.Spec]engine.Set, error) {
	return map[engine.Spec]engine.Set{}, nil
}

func (st *MemStore) Create(_ context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	if err := st.err(); err != nil {
		return nil, err
	}
	of, err := kinds.Of(spec.Kind)
	if err != nil {
		return nil, err
	}
	clock := timing.SystemClock()
	if configs.Expires(spec.Kind) {
		clock = timing.Clock{Elapsed: func() time.Duration { return time.Duration(st.elapsed.Load()) }, Wall: time.Now}
	}
	m, err := of.New(spec, b, clock)
	if err != nil {
		return nil, err
	}
	m.Log(noJournal{})
	switch m := m.(type) {
	case kind.Expiring:
		return &memTimed{memKeys{m, st}, m, spec.Expire()}, nil
	case kind.Reserving:
		return &memKeys{m, st}, nil
	case kind.Similar:
		return &memTexts{m, st}, nil
	}
	set := &memSet{BitMap: m.(kind.BitMap), store: st}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.Sets == nil {
		st.Sets = map[engine.Spec]*memSet{}
	}
	st.Sets[spec] = set
	return set, nil
}

func (st *MemStore) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	set, err := st.Create(ctx, spec, b)
	if err == nil {
		serve(set)
	}
	return err
}

func (st *MemStore) Drop(_ context.Context, spec engine.Spec) error { return st.err() }

func (m *memSet) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	if err := m.store.take(ctx); err != nil {
		return 0, err
	}
	return m.BitMap.Add(keys, fresh)
}

func (m *memSet) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	if err := m.store.take(ctx); err != nil {
		return err
	}
	m.BitMap.Has(keys, fresh)
	return nil
}

func (m *memSet) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	return m.BitMap.Stripe(i, buf), nil
}

func (m *memSet) MergeStripe(_ context.Context, i int, data []byte) error {
	return m.BitMap.MergeStripe(i, data)
}

func (m *memSet) Commit(context.Context) error { return nil }

func (m *memSet) WrittenBack(at time.Time) { m.Writeback.Store(&at) }

func (m *memSet) Stats() engine.Stats {
	st := m.BitMap.Stats()
	if t := m.Writeback.Load(); t != nil {
		st.LastWriteback = *t
	}
	return st
}

// OpenEmbedded is a store on disk, which the test closes.
func OpenEmbedded(t *testing.T, dir string) *embedded.Store {
	t.Helper()
	st, err := embedded.Open(embedded.Options{Dir: dir, Durability: "always", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return st
}
