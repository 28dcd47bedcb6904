package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Reserve implements engine.Reserving. When its answer is lost, it is done again with the same id,
// which finds what it has taken.
func (s *Set) Reserve(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lease time.Duration, fresh []bool) (result engine.Reserved, err error) {
	if err := s.enter(ctx); err != nil || len(keys) == 0 {
		return result, err
	}
	ctx = context.WithoutCancel(ctx)
	s.reserves.Store(true)
	r := reserving{set: s, id: id, lease: lease, keys: keys, o: orderKeys(keys), fresh: fresh}
	if err := s.repeat(ctx, len(r.o.keys), "reserved", func(bool) error { return r.once(ctx) }); err != nil {
		clear(fresh)
		return result, err
	}
	s.changed.Add(1)
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
