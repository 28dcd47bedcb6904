package mysql

import (
	"context"
	"database/sql"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

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
	size := min(lookKeys, s.store.pieceOf())
	for len(keys) > 0 {
		piece := keys[:min(size, len(keys))]
		if err := do(piece); err != nil {
			return err
		}
		keys = keys[len(piece):]
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
