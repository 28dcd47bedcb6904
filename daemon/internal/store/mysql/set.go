package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Set is one filter. Of its items it keeps nothing in this process but their number.
type Set struct {
	store *Store
	entry
	gone atomic.Bool // dropped, or cleared
	// The items are those of the last count, without what was added here until it began, and
	// what has been added here.
	counted, own   atomic.Int64
	begun, ongoing atomic.Int64 // calls that may change the items
	// reserves is set once there have been reservations; only then do batches look for leases
	// that have ended.
	reserves atomic.Bool
}

var (
	_ engine.Forgetful = (*Set)(nil)
	_ engine.Reserving = (*Set)(nil)
	_ engine.Ending    = (*Set)(nil)
)

// Ended implements engine.Ending.
func (s *Set) Ended() bool { return s.gone.Load() }

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
	defer s.mayChange()()
	if err := s.insert(context.WithoutCancel(ctx), orderKeys(keys), fresh); err != nil {
		return 0, err
	}
	for _, is := range fresh {
		if is {
			n++
		}
	}
	s.own.Add(int64(n))
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
	defer s.mayChange()()
	n, err := s.remove(context.WithoutCancel(ctx), orderKeys(keys))
	if err != nil {
		return 0, err
	}
	s.own.Add(-int64(n))
	return n, nil
}

// Seed implements engine.Set.
func (s *Set) Seed() uint64 { return s.seed }

// rowBytes is about what a row takes on the server's disk, once rows have come in any order: 42
// bytes in pages that are two thirds full.
const rowBytes = 64

// Stats implements engine.Set.
func (s *Set) Stats() engine.Stats {
	items := uint64(max(0, s.counted.Load()+s.own.Load()))
	return engine.Stats{Items: items, Bytes: items * rowBytes, Generation: s.generation}
}

// mayChange tells that a call may change the items, until the function that it returns is called.
func (s *Set) mayChange() (done func()) {
	s.ongoing.Add(1)
	s.begun.Add(1) // after it, as recount reads this first: what it knows to be begun is ongoing, or has ended
	return func() { s.ongoing.Add(-1) }
}

// countedExactly is the most rows that are counted; counting more would read gigabytes, so the
// server's own estimate is used.
const countedExactly = 1_000_000

// recount finds out how many items there are, including those of other daemons. What this daemon
// changes meanwhile may count twice until the next count. So it counts once more in that case;
// but a daemon that is never idle has to take what it gets.
func (s *Set) recount(ctx context.Context) error {
	for range 2 {
		begun, idle, own := s.begun.Load(), s.ongoing.Load() == 0, s.own.Load()
		n, err := s.countRows(ctx)
		if err != nil {
			return err
		}
		s.counted.Store(n - own)
		if idle && s.begun.Load() == begun {
			break
		}
	}
	return nil
}

func (s *Set) countRows(ctx context.Context) (n int64, err error) {
	err = s.store.admin.QueryRowContext(ctx, "select coalesce(table_rows, 0) from information_schema.tables where table_schema = database() and table_name = ?", s.table).Scan(&n)
	if err == nil && n <= countedExactly {
		err = s.store.admin.QueryRowContext(ctx, "select count(*) from `"+s.table+"`").Scan(&n)
	}
	var reservations, reserved int64
	if err == nil {
		err = s.store.admin.QueryRowContext(ctx, "select count(*), coalesce(sum(held), 0) from "+reservationsTable+" where items_table = ?", s.table).Scan(&reservations, &reserved)
	}
	if err == nil && reserved > 0 && n <= countedExactly { // others may have taken some, or forgotten them, since their leases ended
		err = s.store.admin.QueryRowContext(ctx, fmt.Sprintf("select count(*) from %s r straight_join %s d on d.batch = r.batch and d.state = %d straight_join `%s` i on i.k = d.k and i.batch = d.batch where r.items_table = ?",
			reservationsTable, reservedTable, held, s.table), s.table).Scan(&reserved)
	}
	if reservations > 0 {
		s.reserves.Store(true)
	}
	return max(0, n-reserved), err
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

// waitForRead waits until the commits of others that c has read are durable; if c is a transaction, its
// commit waits for them. A call that has changed nothing itself is answered only then.
//
// A transaction that commits gives up its locks before its part of the redo log is on the disk. Until
// it is there, others can read what was changed, and a crash of the server takes the change back. The
// commit of a transaction that has itself changed something waits for the log, with all that was
// committed before (innodb_flush_log_at_trx_commit = 1); one that has only read does not wait.
//
// A server that was started anew knows nothing of this. So c must be the connection, or the
// transaction, with which the caller has read; a pool may use another connection for each statement.
func (s *Store) waitForRead(ctx context.Context, c querier) error {
	if !s.opt.Durable {
		return nil
	}
	batch := rand.Uint64()
	// Together these change nothing that others can see.
	changes := []string{
		fmt.Sprintf("insert into %s (batch, k, state) values (%d, '', 0)", reservedTable, batch),
		fmt.Sprintf("delete from %s where batch = %d", reservedTable, batch),
	}
	l, err := readLog(ctx, c)
	if err != nil || l.written(l) {
		return err
	}
	if err = s.change(ctx, c, changes); !isNoSpace(err) || l.current == 0 {
		return err
	}
	// What has no space to change anything still writes its log, every second.
	for began := time.Now(); time.Since(began) < patience && s.pause(retryEvery); {
		if now, err := readLog(ctx, c); err != nil || now.written(l) {
			return err
		}
	}
	return err
}

// change carries out statements together.
func (s *Store) change(ctx context.Context, c querier, statements []string) error {
	conn, ok := c.(*sql.Conn)
	if !ok {
		return execAll(ctx, c, statements)
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := execAll(ctx, tx, statements); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

func execAll(ctx context.Context, c querier, statements []string) error {
	for _, statement := range statements {
		if _, err := c.ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// logPlaces are the end of the redo log, and of the part that is on the disk; zero: the server does
// not tell.
type logPlaces struct{ current, flushed uint64 }

// written tells whether what was in the log when it was read as then is on the disk.
func (l logPlaces) written(then logPlaces) bool {
	return then.current > 0 && l.flushed >= then.current
}

func readLog(ctx context.Context, c querier) (l logPlaces, err error) {
	rows, err := c.QueryContext(ctx, "show global status where variable_name in ('Innodb_lsn_current', 'Innodb_lsn_flushed')")
	if err != nil {
		return l, err
	}
	defer rows.Close()
	at := map[string]uint64{}
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return l, err
		}
		if at[name], err = strconv.ParseUint(value, 10, 64); err != nil {
			return logPlaces{}, nil // a server that does not tell: the changes make sure
		}
	}
	return logPlaces{at["Innodb_lsn_current"], at["Innodb_lsn_flushed"]}, errors.Join(rows.Err(), rows.Close())
}
