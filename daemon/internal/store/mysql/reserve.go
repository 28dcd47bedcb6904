package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
)

// Reserve implements engine.Reserving. When its answer is lost, it is done again with the same id,
// which finds what it has taken.
func (s *Set) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (result engine.Reserved, err error) {
	if err := s.enter(ctx); err != nil || len(keys) == 0 {
		return result, err
	}
	ctx = context.WithoutCancel(ctx)
	defer s.mayChange()()
	s.reserves.Store(true)
	r := reserving{set: s, id: id, lease: lease, keys: keys, o: orderKeys(keys), fresh: fresh}
	if err := s.repeat(ctx, len(r.o.keys), "reserved", func(bool) error { return r.once(ctx) }); err != nil {
		clear(fresh)
		return result, err
	}
	for i := range keys {
		if fresh[i] {
			result.Fresh++
		} else if r.others[keys[i]] {
			result.Held++
		}
	}
	return result, nil
}

// reserving is one Reserve.
type reserving struct {
	set   *Set
	id    engine.Reservation
	lease time.Duration
	keys  []bloom.Hash // as the caller has them
	o     orderedKeys
	fresh []bool // which of them were taken

	others map[bloom.Hash]bool // what others hold
	free   []bloom.Hash        // what may be taken, in order
	ended  []uint64            // reservations whose leases have ended, and whose items may be taken
}

// errNoneFree ends a transaction in which nothing was taken.
var errNoneFree = errors.New("no item is free")

// once is one attempt.
func (r *reserving) once(ctx context.Context) error {
	clear(r.fresh)
	c, err := r.set.store.batches.Conn(ctx)
	if err != nil {
		return notSent(err)
	}
	defer c.Close()
	if err := r.look(ctx, c); err != nil {
		return notSent(err)
	}
	if len(r.free) == 0 {
		return notSent(r.set.store.waitForRead(ctx, c))
	}
	err = r.set.inTx(ctx, c, func(tx *sql.Tx) error {
		known, err := r.open(ctx, tx)
		if err != nil {
			return err
		}
		got, err := r.claimFree(ctx, tx, known)
		if err != nil {
			return err
		}
		if len(got) < len(r.free) { // others were quicker
			if err := r.lookAtOthers(ctx, tx); err != nil {
				return err
			}
		}
		if len(got) == 0 {
			return errNoneFree
		}
		if err := r.note(ctx, tx, got, known); err != nil || !known {
			return err
		}
		return r.set.store.waitForRead(ctx, tx)
	})
	if errors.Is(err, errNoneFree) {
		return notSent(r.set.store.waitForRead(ctx, c))
	}
	return err
}

// look finds out what may be taken, so that what is seen takes part in no transaction.
func (r *reserving) look(ctx context.Context, c querier) error {
	r.others, r.free, r.ended = map[bloom.Hash]bool{}, r.free[:0], nil
	taken := make([]bool, len(r.fresh))
	ended := map[uint64]bool{}
	err := r.set.owners(ctx, c, r.o.keys, func(row []byte, batch uint64, of owner) {
		i := r.o.find(row)
		switch {
		case i < 0 || batch == numberOf(r.id):
		case of == over:
			ended[batch] = true
		default:
			taken[i] = true
		}
		if i >= 0 && taken[i] && of == running {
			r.others[r.keys[i]] = true
		}
	})
	for batch := range ended {
		r.ended = append(r.ended, batch)
	}
	for i, key := range r.o.keys {
		if !taken[r.o.first[i]] {
			r.free = append(r.free, key)
		}
	}
	return err
}

// open makes the reservation, or finds it: then it is known. Its row stays locked.
func (r *reserving) open(ctx context.Context, tx *sql.Tx) (known bool, err error) {
	lease := r.lease.Milliseconds()
	goes := engine.Known(r.lease).Milliseconds()
	done, err := tx.ExecContext(ctx, fmt.Sprintf("insert into %s (batch, check_hi, items_table, made, until, held, ends, goes) values (%d, %d, '%s', %s, made + %d, 0, until, made + %d)"+
		" on duplicate key update held = held", reservationsTable, numberOf(r.id), r.id.Hi, r.set.table, serverNow, lease, goes))
	if err != nil {
		return false, err
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return false, err
	}
	_, err = r.set.reservation(ctx, tx, r.id)
	return true, err
}

// claimFree takes what is free, and still is.
func (r *reserving) claimFree(ctx context.Context, tx *sql.Tx, known bool) (got []bloom.Hash, err error) {
	ended := r.ended
	if known || ended != nil {
		ended = append(ended, numberOf(r.id)) // what it holds is given once more
	}
	for piece := range slices.Chunk(r.free, r.set.store.pieceOf()) {
		err := r.set.assign(ctx, tx, piece, numberOf(r.id), ended, func(row []byte) {
			if i := r.o.find(row); i >= 0 {
				r.fresh[i] = true
			}
		})
		if err != nil {
			return nil, err
		}
	}
	for i, key := range r.o.keys {
		if r.fresh[r.o.first[i]] {
			got = append(got, key)
		}
	}
	return got, nil
}

// note writes down what was taken.
func (r *reserving) note(ctx context.Context, tx *sql.Tx, got []bloom.Hash, known bool) error {
	number := numberOf(r.id)
	for piece := range slices.Chunk(got, r.set.store.pieceOf()) {
		b := append(make([]byte, 0, 128+len(piece)*keyBytes), "insert into "+reservedTable+" (batch, k, state) values "...)
		for i, key := range piece {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(strconv.AppendUint(append(b, '('), number, 10), ',')
			b = append(appendKey(b, key), ",1)"...)
		}
		if _, err := tx.ExecContext(ctx, string(append(b, " on duplicate key update state = 1"...))); err != nil {
			return err
		}
	}
	count := strconv.Itoa(len(got))
	if known {
		count = fmt.Sprintf("(select count(*) from %s where batch = %d and state = %d)", reservedTable, number, held)
	}
	_, err := tx.ExecContext(ctx, fmt.Sprintf("update %s set held = %s, ends = until, goes = greatest(goes, until + greatest(until - made, %d)) where batch = %d",
		reservationsTable, count, engine.KeptSettled.Milliseconds(), number))
	return err
}

// lookAtOthers finds out which reservation has an item that was free and was not taken.
func (r *reserving) lookAtOthers(ctx context.Context, tx *sql.Tx) error {
	var late []bloom.Hash
	for i, key := range r.o.keys {
		if at := r.o.first[i]; !r.fresh[at] && !r.others[key] {
			late = append(late, key)
		}
	}
	return r.set.owners(ctx, tx, late, func(row []byte, _ uint64, of owner) {
		if i := r.o.find(row); i >= 0 && of == running {
			r.others[r.keys[i]] = true
		}
	})
}

// An item that is reserved has its row as one that is seen has; its batch is the number of the
// reservation. So a plain batch that finds it calls it a duplicate, and needs to know nothing of
// reservations. It is its reservation's as long as the row has that number: each step that gives
// an item to somebody asks for the number that it has read (UPDATE ... WHERE batch = ...), and puts
// its own there. Of several at the same time the row's lock lets one find it.
//
//	urifilter_reservations   batch, check_hi: the two halves of the name; items_table, made, until;
//	                         held: how many of its items are in the state held; ends: until, while
//	                         it holds any; goes: when it is let go of
//	urifilter_reserved       batch, k, state: what became of each item, so that a commit or release
//	                         that is made again has the same answer
//
// Times are the server's, in milliseconds since 1970. A lease that has ended leaves all rows as
// they are: whoever wants the item takes it, and its reservation may commit it until then.
//
// Locks are taken in one order: the row of the reservation, the rows of items by their keys, the
// rows of reserved items, which only calls for that reservation touch. No transaction that has locked items
// waits for a reservation.

const (
	reservationsTable   = "urifilter_reservations"
	reservedTable       = "urifilter_reserved"
	reservationsComment = "urifilter: reservations, format 1"
	reservedComment     = "urifilter: reserved items, format 1"
)

const (
	reservationsDefinition = "create table " + reservationsTable + " (batch bigint unsigned not null primary key, check_hi bigint unsigned not null," +
		" items_table varchar(64) character set ascii collate ascii_bin not null, made bigint not null, until bigint not null," +
		" held int unsigned not null, ends bigint null, goes bigint not null, key (items_table, ends), key (goes))" +
		" engine = InnoDB comment = '" + reservationsComment + "'"
	reservedDefinition = "create table " + reservedTable + " (batch bigint unsigned not null, k binary(16) not null, state tinyint unsigned not null," +
		" primary key (batch, k)) engine = InnoDB comment = '" + reservedComment + "'"
)

// serverNow is the time of the server at the start of a statement.
const serverNow = "(timestampdiff(microsecond, '1970-01-01', utc_timestamp(6)) div 1000)"

// state is that of an item in reservedTable.
type state uint8

const (
	held state = iota + 1 // or lost: the item's row decides
	committed
	released
	lostState // another took it, or it was forgotten
)

// numberOf is what the rows of a reservation's items have as their batch.
func numberOf(id engine.Reservation) uint64 { return id.Lo }

// owner is whose a row is.
type owner uint8

const (
	seen    owner = iota // nobody's
	running              // a reservation's, whose lease runs
	over                 // a reservation's, whose lease has ended
)

// owners visits the rows of keys that are there.
func (s *Set) owners(ctx context.Context, c querier, keys []bloom.Hash, visit func(row []byte, batch uint64, of owner)) error {
	var row sql.RawBytes
	var batch uint64
	var of owner
	return s.inLists(keys, func(piece []bloom.Hash) error {
		b := append(make([]byte, 0, 256+len(piece)*keyBytes), "select i.k, i.batch, if(r.batch is null, 0, if(r.until > "+serverNow+", 1, 2)) from `"+s.table+
			"` i left join "+reservationsTable+" r on r.batch = i.batch where i.k in "...)
		return eachRow(ctx, c, string(appendKeys(b, piece)), func() { visit(row, batch, of) }, &row, &batch, &of)
	})
}

// inLists does the pieces of keys that go into one look-up.
func (s *Set) inLists(keys []bloom.Hash, do func(piece []bloom.Hash) error) error {
	for piece := range slices.Chunk(keys, min(lookKeys, s.store.pieceOf())) {
		if err := do(piece); err != nil {
			return err
		}
	}
	return nil
}

// ended are the reservations that have rows of keys, and whose leases have ended.
func (s *Set) ended(ctx context.Context, keys []bloom.Hash) (batches []uint64, err error) {
	if !s.reserves.Load() {
		return nil, nil
	}
	c := s.store.batches
	var any int
	err = c.QueryRowContext(ctx, "select exists(select 1 from "+reservationsTable+" where items_table = '"+s.table+"' and ends <= "+serverNow+")").Scan(&any)
	if err != nil || any == 0 {
		return nil, err
	}
	var batch uint64
	have := map[uint64]bool{}
	err = s.inLists(keys, func(piece []bloom.Hash) error {
		b := append(make([]byte, 0, 256+len(piece)*keyBytes), "select i.batch from `"+s.table+"` i straight_join "+reservationsTable+
			" r on r.batch = i.batch where r.until <= "+serverNow+" and i.k in "...)
		return eachRow(ctx, c, string(appendKeys(b, piece)), func() {
			if !have[batch] {
				have[batch] = true
				batches = append(batches, batch)
			}
		}, &batch)
	})
	return batches, err
}

// appendInsert appends the statement that gives rows of keys to a batch: where there are none, and
// where they are those of a reservation of ended. It answers with the keys of the rows that it made,
// or, with ended, with the keys and batches of all.
func (s *Set) appendInsert(b []byte, keys []bloom.Hash, batch uint64, ended []uint64) []byte {
	b = append(b, "insert "...)
	if ended == nil {
		b = append(b, "ignore "...)
	}
	b = append(b, "into `"+s.table+"` (k, batch) values "...)
	for i, key := range keys {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendKey(append(b, '('), key), ',')
		b = append(strconv.AppendUint(b, batch, 10), ')')
	}
	if ended == nil {
		return append(b, " returning k"...)
	}
	b = append(b, " on duplicate key update batch = if(batch in "...)
	return append(appendNumbers(b, ended), ", values(batch), batch) returning k, batch"...)
}

// assign gives keys to a batch with one statement, and visits those that are the batch's then.
func (s *Set) assign(ctx context.Context, c querier, keys []bloom.Hash, batch uint64, ended []uint64, visit func(row []byte)) error {
	statement := string(s.appendInsert(make([]byte, 0, 256+len(keys)*keyBytes+len(ended)*21), keys, batch, ended))
	var row sql.RawBytes
	if ended == nil {
		return eachRow(ctx, c, statement, func() { visit(row) }, &row)
	}
	var of uint64
	return eachRow(ctx, c, statement, func() {
		if of == batch {
			visit(row)
		}
	}, &row, &of)
}

const (
	// letGoEvery is how often the store looks for reservations to discard.
	letGoEvery = time.Second
	// maxLetGo is how many are discarded in one transaction, if they hold nothing.
	maxLetGo = 100
)

// letGo discards reservations that ended long ago, until the store is closed. Several daemons may
// do so at once.
func (s *Store) letGo() {
	for range repeat.Every(s.run, letGoEvery) {
		if err := s.letGoOnce(s.run); err != nil && s.run.Err() == nil {
			s.log.Debug("let go of reservations in mysql", "err", err)
		}
	}
}

func (s *Store) letGoOnce(ctx context.Context) error {
	for {
		var settled, holding []uint64
		var batch uint64
		var holds int
		err := eachRow(ctx, s.admin, fmt.Sprintf("select batch, held from %s where goes <= %s order by goes limit %d", reservationsTable, serverNow, maxLetGo), func() {
			if holds > 0 {
				holding = append(holding, batch)
			} else {
				settled = append(settled, batch)
			}
		}, &batch, &holds)
		if err != nil || len(settled)+len(holding) == 0 {
			return err
		}
		if len(settled) > 0 {
			if err := s.letGoOf(ctx, settled, false); err != nil {
				return err
			}
		}
		for _, batch := range holding {
			if err := s.letGoOf(ctx, []uint64{batch}, true); err != nil {
				return err
			}
		}
		if len(settled)+len(holding) < maxLetGo {
			return nil
		}
	}
}

// letGoOf discards reservations, or a single one with what it holds, unless a call for them has
// come since.
func (s *Store) letGoOf(ctx context.Context, which []uint64, holding bool) error {
	tx, err := s.admin.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer rollback(tx)
	var batch uint64
	var table string
	var of []uint64
	lock := appendNumbers([]byte("select batch, items_table from "+reservationsTable+" where batch in "), which)
	err = eachRow(ctx, tx, fmt.Sprintf("%s and goes <= %s and (%t or held = 0) order by batch for update", lock, serverNow, holding), func() { of = append(of, batch) }, &batch, &table)
	if err != nil || of == nil {
		return err
	}
	if holding && strings.HasPrefix(table, itemsPrefix) && !strings.ContainsAny(table, "`\\ ") {
		// In the order of keys, as all daemons lock them.
		_, err = tx.ExecContext(ctx, fmt.Sprintf("delete i from %s d straight_join `%s` i on i.k = d.k where d.batch = %d and d.state = %d and i.batch = d.batch", reservedTable, table, batch, held))
		if err != nil && errorNumber(err) != erNoSuchTable { // of a filter that was dropped or cleared
			return err
		}
	}
	for _, from := range []string{reservedTable, reservationsTable} {
		if _, err := tx.ExecContext(ctx, string(appendNumbers([]byte("delete from "+from+" where batch in "), of))); err != nil {
			return err
		}
	}
	return tx.Commit()
}

// noteReserving marks the sets of which other daemons have reserved items.
func (s *Store) noteReserving(ctx context.Context) error {
	var plain []*Set
	for _, set := range s.all() {
		if !set.reserves.Load() {
			plain = append(plain, set)
		}
	}
	if plain == nil {
		return nil
	}
	tables := map[string]bool{}
	var table string
	err := eachRow(ctx, s.admin, "select distinct items_table from "+reservationsTable, func() { tables[table] = true }, &table)
	for _, set := range plain {
		if tables[set.table] {
			set.reserves.Store(true)
		}
	}
	return err
}

// endReservations marks the reservations of a table that no longer exists as due to be discarded.
func endReservations(ctx context.Context, c querier, table string) error {
	_, err := c.ExecContext(ctx, "update "+reservationsTable+" set goes = 0 where items_table = ?", table)
	return err
}
