package mysql

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Set is one filter. Of its items it keeps nothing in this process but their number.
type Set struct {
	store *Store
	entry
	gone    atomic.Bool  // dropped, or cleared
	items   atomic.Int64 // as last counted, and what was added here since
	changed atomic.Int64 // grows with every change of items
	// reserves is set once there have been reservations; only then do batches look for leases
	// that have ended.
	reserves atomic.Bool
}

var (
	_ engine.Forgetful = (*Set)(nil)
	_ engine.Reserving = (*Set)(nil)
)

var errClosed = errors.New("store is closed")

// enter returns why the set cannot be used; nil: it can.
func (s *Set) enter(ctx context.Context) error {
	if s.gone.Load() {
		return &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.store.run.Err() != nil {
		return errClosed
	}
	return s.store.refusing()
}

// Add implements engine.Set. The end of ctx does not interrupt a batch, which would leave it in
// doubt.
func (s *Set) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (n int, err error) {
	if err := s.enter(ctx); err != nil || len(keys) == 0 {
		return 0, err
	}
	if err := s.insert(context.WithoutCancel(ctx), orderKeys(keys), fresh); err != nil {
		return 0, err
	}
	for _, is := range fresh {
		if is {
			n++
		}
	}
	s.count(n)
	return n, nil
}

// Has implements engine.Set.
func (s *Set) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	if err := s.enter(ctx); err != nil || len(keys) == 0 {
		return err
	}
	o := orderKeys(keys)
	seen := make(map[bloom.Hash]bool, len(o.keys))
	visit := func(row []byte) {
		if i := o.find(row); i >= 0 {
			seen[keys[i]] = true
		}
	}
	c, err := s.store.batches.Conn(ctx)
	if err != nil {
		return s.store.trouble(err)
	}
	defer c.Close()
	if s.reserves.Load() {
		err = s.owners(ctx, c, o.keys, func(row []byte, _ uint64, of owner) {
			if of != over {
				visit(row)
			}
		})
	} else {
		err = s.look(ctx, c, o.keys, 0, visit)
	}
	if err == nil {
		err = s.store.waitForRead(ctx, c)
	}
	switch {
	case err == nil:
	case errorNumber(err) == erNoSuchTable:
		return s.tableGone(ctx, err)
	default:
		return s.store.trouble(err)
	}
	for i, key := range keys {
		fresh[i] = !seen[key]
	}
	return nil
}

// Forget implements engine.Forgetful.
func (s *Set) Forget(ctx context.Context, keys []bloom.Hash) (int, error) {
	if err := s.enter(ctx); err != nil || len(keys) == 0 {
		return 0, err
	}
	n, err := s.remove(context.WithoutCancel(ctx), orderKeys(keys))
	if err != nil {
		return 0, err
	}
	s.count(-n)
	return n, nil
}

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.seed }

// rowBytes is about what a row takes on the server's disk, once rows have come in any order: 42
// bytes in pages that are two thirds full.
const rowBytes = 64

// Stats implements engine.Set.
func (s *Set) Stats() engine.Stats {
	items := uint64(max(0, s.items.Load()))
	return engine.Stats{Items: items, Bytes: items * rowBytes, Generation: s.generation}
}

// count notes items that were added or removed here.
func (s *Set) count(n int) {
	if n != 0 {
		s.items.Add(int64(n))
		s.changed.Add(1)
	}
}

// countedExactly is the most rows that are counted; counting more would read gigabytes, so the
// server's own estimate is used.
const countedExactly = 1_000_000

// recount finds out how many items there are, including those of other daemons. A count during
// which this daemon has changed something is not used.
func (s *Set) recount(ctx context.Context) error {
	before := s.changed.Load()
	var n int64
	err := s.store.admin.QueryRowContext(ctx, "select coalesce(table_rows, 0) from information_schema.tables where table_schema = database() and table_name = ?", s.table).Scan(&n)
	if err == nil && n <= countedExactly {
		err = s.store.admin.QueryRowContext(ctx, "select count(*) from `"+s.table+"`").Scan(&n)
	}
	var reservations, held int64
	if err == nil {
		err = s.store.admin.QueryRowContext(ctx, "select count(*), coalesce(sum(held), 0) from "+reservationsTable+" where items_table = ?", s.table).Scan(&reservations, &held)
		n = max(0, n-held)
	}
	if reservations > 0 {
		s.reserves.Store(true)
	}
	if err != nil {
		return err
	}
	if s.changed.Load() == before {
		s.items.Store(n)
	}
	return nil
}

// tableGone returns the error for a batch that did not find the table: the filter was dropped or
// cleared, or someone else has dropped the table.
func (s *Set) tableGone(ctx context.Context, cause error) error {
	if s.gone.Load() {
		return &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	entries, err := readEntries(ctx, s.store.admin)
	if err != nil {
		return s.store.trouble(err)
	}
	if now, found := entryOf(entries, s.spec); found && now == s.entry {
		return fmt.Errorf("%w: mysql %s: filter %s: its table is gone: %w\nhint: bring it back from a backup, or drop the filter", engine.ErrUnavailable, s.store.opt.Addr, s.spec.Name, cause)
	}
	s.store.pollSoon() // which tells the engine
	return &engine.UnknownFilterError{Ref: s.spec.Name}
}
