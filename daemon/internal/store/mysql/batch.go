package mysql

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// A batch is one statement, or a transaction of several if the server does not accept so much at
// once: INSERT IGNORE ... RETURNING returns the rows that did not exist. Of two batches with the
// same new key, one waits for the other at its row, and then finds it. Keys are in order, so that
// batches never wait in a circle.
//
// Every row has the random number of the batch that inserted it. If the connection breaks before
// the answer arrives, the batch may have been carried out or not, or may still be under way; it
// is then repeated under the same number, and every row with that number is new, whichever
// attempt inserted it. The outcome of the batch is unknown only if the server cannot be reached
// for long.

const (
	// pieceKeys bounds a statement.
	pieceKeys = 2000
	// lookKeys bounds the list of a look-up: the optimizer does not use the index for far longer
	// ones.
	lookKeys = 1000
	// patience is how long a batch that may have been carried out is retried.
	patience = 10 * time.Second
	// maxRetries bounds how often a batch that was blocked by others is retried. It is not
	// retried after patience either: a caller that waits for rows of a daemon whose machine is
	// gone gets an error.
	maxRetries = 20
)

func tired(retries int, start time.Time) bool {
	return retries >= maxRetries || time.Since(start) > patience
}

// pieceOf returns how many keys a statement may have.
func (s *Store) pieceOf() int {
	return int(max(1, min(pieceKeys, (s.packet.Load()-1024)/keyBytes)))
}

// insert adds the keys of a batch, and marks those that were new.
func (s *Set) insert(ctx context.Context, o orderedKeys, fresh []bool) error {
	id := rand.Uint64()
	return s.repeat(ctx, len(o.keys), "remembered", func(again bool) error {
		clear(fresh)
		return s.insertOnce(ctx, o, id, again, fresh)
	})
}

// repeat attempts a change of n keys that is safe to repeat, until one attempt is carried out.
// again tells an attempt that an earlier one may have been carried out.
func (s *Set) repeat(ctx context.Context, n int, done string, once func(again bool) error) error {
	var unknown error // why it is not known whether the batch was carried out
	start := time.Now()
	var until time.Time
	for retries := 0; ; retries++ {
		err := once(unknown != nil)
		if err == nil {
			return nil
		}
		switch what := outcomeOf(err); {
		case errors.Is(err, engine.ErrNoReservation):
			return err
		case errorNumber(err) == erNoSuchTable:
			return s.tableGone(ctx, err) // with what was in it
		case unknown == nil && what == refused, unknown == nil && what == retried && tired(retries, start):
			return s.store.trouble(err)
		case unknown == nil && what == lost:
			unknown, until = err, time.Now().Add(patience)
			s.store.log.Debug("a batch is repeated, because its answer was lost", "filter", s.spec.Name, "err", err)
		}
		if unknown != nil && (time.Now().After(until) || !s.store.pause(retryEvery)) {
			return shared.InDoubt(s.store.trouble(errors.Join(unknown, err)), n, done)
		}
	}
}

// retryEvery is the pause before a batch whose answer was lost is tried again.
const retryEvery = 50 * time.Millisecond

// pause waits, and tells whether the store is still open.
func (s *Store) pause(d time.Duration) bool {
	limit := time.NewTimer(d)
	defer limit.Stop()
	select {
	case <-s.run.Done():
		return false
	case <-limit.C:
		return true
	}
}

// insertOnce is one attempt. again tells that an earlier one of this id may have been carried out.
func (s *Set) insertOnce(ctx context.Context, o orderedKeys, id uint64, again bool, fresh []bool) error {
	changed := false
	mark := func(row []byte) {
		if i := o.find(row); i >= 0 {
			fresh[i], changed = true, true
		}
	}
	over, err := s.ended(ctx, o.keys)
	if err != nil {
		return notSent(err)
	}
	err = s.inPieces(ctx, o.keys, s.store.pieceOf(), func(c querier, piece []bloom.Hash) error {
		return s.assign(ctx, c, piece, id, over, mark)
	}, func() bool { return changed && !again })
	if err != nil || !again {
		return err
	}
	return s.look(ctx, s.store.batches, o.keys, id, mark)
}

// look visits those of keys that exist: the ones of a batch; 0: all.
func (s *Set) look(ctx context.Context, c querier, keys []bloom.Hash, batch uint64, visit func(row []byte)) error {
	var row sql.RawBytes
	return s.inLists(keys, func(piece []bloom.Hash) error {
		b := appendKeys([]byte("select k from `"+s.table+"` where k in "), piece)
		if batch != 0 {
			b = strconv.AppendUint(append(b, " and batch = "...), batch, 10)
		}
		return eachRow(ctx, c, string(b), func() { visit(row) }, &row)
	})
}

// inPieces carries out the pieces of a batch, all or none: a single one by itself, several in a
// transaction. If they have changed nothing, it waits for what they have read.
func (s *Set) inPieces(ctx context.Context, keys []bloom.Hash, size int, do func(c querier, piece []bloom.Hash) error, changed func() bool) error {
	if len(keys) <= size {
		c, err := s.store.batches.Conn(ctx)
		if err != nil {
			return notSent(err)
		}
		defer c.Close()
		if err := do(c, keys); err != nil || changed() {
			return err
		}
		return s.store.waitForRead(ctx, c)
	}
	return s.inTx(ctx, s.store.batches, func(tx *sql.Tx) error {
		for piece := range slices.Chunk(keys, size) {
			if err := do(tx, piece); err != nil {
				return err
			}
		}
		if changed() {
			return nil
		}
		return s.store.waitForRead(ctx, tx)
	})
}

// beginner is a connection, or a pool of them.
type beginner interface {
	BeginTx(ctx context.Context, o *sql.TxOptions) (*sql.Tx, error)
}

// inTx runs work in a transaction. If work returns an error, nothing was carried out.
func (s *Set) inTx(ctx context.Context, c beginner, work func(tx *sql.Tx) error) error {
	tx, err := c.BeginTx(ctx, nil)
	if err != nil {
		return notSent(err)
	}
	if err := work(tx); err != nil {
		return notSent(errors.Join(err, rollback(tx)))
	}
	return tx.Commit()
}

// rollback gives a transaction up; the server does so too when the connection is gone.
func rollback(tx *sql.Tx) error {
	if err := tx.Rollback(); err != nil && errorNumber(err) != 0 {
		return err
	}
	return nil
}

// eachRow visits the rows of a statement, each scanned into dest. Only if it returns nil has the
// statement been carried out, and committed if it is not part of a transaction.
func eachRow(ctx context.Context, c querier, statement string, visit func(), dest ...any) error {
	rows, err := c.QueryContext(ctx, statement)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return err
		}
		visit()
	}
	return errors.Join(rows.Err(), rows.Close())
}

// remove deletes the keys of a batch, and returns how many were seen. If the connection breaks,
// the outcome is unknown: a repetition would not count what the first attempt removed.
func (s *Set) remove(ctx context.Context, o orderedKeys) (removed int, err error) {
	start := time.Now()
	for retries := 0; ; retries++ {
		removed = 0
		err := s.removeOnce(ctx, o.keys, &removed)
		if err == nil {
			return removed, nil
		}
		switch what := outcomeOf(err); {
		case errorNumber(err) == erNoSuchTable:
			return 0, s.tableGone(ctx, err)
		case what == lost:
			return 0, shared.InDoubt(s.store.trouble(err), len(o.keys), "forgotten")
		case what == refused, tired(retries, start):
			return 0, s.store.trouble(err)
		}
	}
}

func (s *Set) removeOnce(ctx context.Context, keys []bloom.Hash, removed *int) error {
	const from = "delete from `"
	if !s.reserves.Load() {
		return s.inPieces(ctx, keys, min(lookKeys, s.store.pieceOf()), func(c querier, piece []bloom.Hash) error {
			done, err := c.ExecContext(ctx, string(appendKeys([]byte(from+s.table+"` where k in "), piece)))
			if err != nil {
				return err
			}
			n, err := done.RowsAffected()
			*removed += int(n)
			return err
		}, func() bool { return *removed > 0 })
	}
	return s.inTx(ctx, s.store.batches, func(tx *sql.Tx) error {
		err := s.inLists(keys, func(piece []bloom.Hash) error {
			n, err := s.removeReserved(ctx, tx, string(append(appendKeys([]byte(from+s.table+"` where k in "), piece), " returning batch"...)))
			*removed += n
			return err
		})
		if err != nil || *removed > 0 {
			return err
		}
		return s.store.waitForRead(ctx, tx)
	})
}

// removeReserved counts what a statement deletes, except reserved items, which were not seen.
// These are lost to their reservations, which no longer find their rows.
func (s *Set) removeReserved(ctx context.Context, c querier, statement string) (removed int, err error) {
	var batch uint64
	of := map[uint64]int{}
	err = eachRow(ctx, c, statement, func() { of[batch]++; removed++ }, &batch)
	if err != nil || len(of) == 0 {
		return 0, err
	}
	b := appendNumbers([]byte("select batch from "+reservationsTable+" where batch in "), slices.Sorted(maps.Keys(of)))
	return removed, eachRow(ctx, c, string(b), func() { removed -= of[batch] }, &batch)
}
