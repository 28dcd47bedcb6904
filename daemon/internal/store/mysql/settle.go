package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Commit implements engine.Reserving.
func (s *Set) Commit(ctx context.Context, id engine.Reservation, keys []bloom.Hash, _ time.Duration, lost []bool) (engine.Settled, error) {
	return s.settle(ctx, settling{set: s, id: id, to: committed}, keys, lost)
}

// Release implements engine.Reserving.
func (s *Set) Release(ctx context.Context, id engine.Reservation, keys []bloom.Hash, lost []bool) (engine.Settled, error) {
	return s.settle(ctx, settling{set: s, id: id, to: released}, keys, lost)
}

// settle is repeated when its answer is lost, and then finds what it has done.
func (s *Set) settle(ctx context.Context, w settling, keys []bloom.Hash, lost []bool) (result engine.Settled, err error) {
	if err := s.enter(ctx); err != nil {
		return result, err
	}
	ctx = context.WithoutCancel(ctx)
	s.reserves.Store(true)
	defer s.mayChange()()
	what := map[state]string{committed: "committed", released: "released"}[w.to]
	o := orderKeys(keys)
	err = s.repeat(ctx, len(keys), what, func(bool) error { return w.once(ctx, keys == nil, o.keys) })
	if err != nil {
		return result, err
	}
	s.own.Add(int64(w.added))
	if keys == nil {
		for _, is := range w.found {
			if is == w.to {
				result.Done++
			} else {
				result.Lost++
			}
		}
		return result, nil
	}
	for _, key := range o.keys {
		if w.found[key] == w.to {
			result.Done++
		}
	}
	for i, key := range keys {
		if lost[i] = w.found[key] != w.to; lost[i] {
			result.Lost++
		}
	}
	return result, nil
}

// settling is one Commit or Release.
type settling struct {
	set *Set
	id  engine.Reservation
	to  state

	found map[bloom.Hash]state // the reservation's keys that it is about, with their states afterwards
	added int                  // those that were not seen before
}

// once is one attempt.
func (w *settling) once(ctx context.Context, all bool, keys []bloom.Hash) error {
	w.found, w.added = map[bloom.Hash]state{}, 0
	return w.set.inTx(ctx, w.set.store.batches, func(tx *sql.Tx) error {
		holds, err := w.set.reservation(ctx, tx, w.id)
		if err != nil {
			return err
		}
		if all {
			err = w.read(ctx, tx, "", nil)
		} else {
			err = w.set.inLists(keys, func(piece []bloom.Hash) error { return w.read(ctx, tx, " and k in ", piece) })
		}
		if err != nil {
			return err
		}
		mine := make([]bloom.Hash, 0, len(w.found))
		for key, is := range w.found {
			if is == held {
				mine = append(mine, key)
			}
		}
		if len(mine) == 0 {
			return w.set.store.waitForRead(ctx, tx)
		}
		slices.SortFunc(mine, compareKeys)
		if err := w.set.inLists(mine, func(piece []bloom.Hash) error { return w.piece(ctx, tx, piece) }); err != nil {
			return err
		}
		return w.note(ctx, tx, max(0, holds-len(mine)))
	})
}

// reservation locks the row of a reservation, and returns how many items it holds.
func (s *Set) reservation(ctx context.Context, tx *sql.Tx, id engine.Reservation) (holds int, err error) {
	err = tx.QueryRowContext(ctx, fmt.Sprintf("select held from %s where batch = %d and check_hi = %d and items_table = '%s' for update", reservationsTable, numberOf(id), id.Hi, s.table)).Scan(&holds)
	if errors.Is(err, sql.ErrNoRows) {
		err = fmt.Errorf("filter %s: %w", s.spec.Name, engine.ErrNoReservation)
	}
	return holds, err
}

// read finds out what has already become of keys; nil: of all that w may be about.
func (w *settling) read(ctx context.Context, tx *sql.Tx, and string, keys []bloom.Hash) error {
	b := fmt.Appendf(nil, "select k, state from %s where batch = %d", reservedTable, numberOf(w.id))
	if keys != nil {
		b = appendKeys(append(b, and...), keys)
	} else {
		b = fmt.Appendf(b, " and state <> %d", committed+released-w.to)
	}
	var row sql.RawBytes
	var is state
	return eachRow(ctx, tx, string(b), func() {
		if key, ok := keyOf(row); ok {
			w.found[key] = is
		}
	}, &row, &is)
}

// piece settles keys that are held, or lost.
func (w *settling) piece(ctx context.Context, tx *sql.Tx, keys []bloom.Hash) error {
	for _, key := range keys {
		w.found[key] = lostState
	}
	set := func(row []byte) {
		if key, ok := keyOf(row); ok {
			w.found[key] = w.to
		}
	}
	var err error
	if w.to == committed {
		err = w.commit(ctx, tx, keys, set)
	} else {
		var row sql.RawBytes
		b := appendKeys([]byte("delete from `"+w.set.table+"` where k in "), keys)
		err = eachRow(ctx, tx, fmt.Sprintf("%s and batch = %d returning k", b, numberOf(w.id)), func() { set(row) }, &row)
	}
	if err != nil {
		return err
	}
	for _, to := range []state{w.to, lostState} {
		var which []bloom.Hash
		for _, key := range keys {
			if w.found[key] == to {
				which = append(which, key)
			}
		}
		if which == nil {
			continue
		}
		b := appendKeys(fmt.Appendf(nil, "update %s set state = %d where batch = %d and k in ", reservedTable, to, numberOf(w.id)), which)
		if _, err := tx.ExecContext(ctx, string(b)); err != nil {
			return err
		}
	}
	return nil
}

// commit assigns the rows of the reservation to a batch from which nobody can take them.
func (w *settling) commit(ctx context.Context, tx *sql.Tx, keys []bloom.Hash, set func(row []byte)) error {
	batch := rand.Uint64()
	b := strconv.AppendUint([]byte("update `"+w.set.table+"` set batch = "), batch, 10)
	b = appendKeys(append(b, " where k in "...), keys)
	done, err := tx.ExecContext(ctx, fmt.Sprintf("%s and batch = %d", b, numberOf(w.id)))
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	w.added += int(n)
	switch {
	case err != nil:
		return err
	case int(n) < len(keys): // some are lost
		return w.set.look(ctx, tx, keys, batch, set)
	}
	for _, key := range keys {
		w.found[key] = committed
	}
	return nil
}

// note records how many keys the reservation holds now.
func (w *settling) note(ctx context.Context, tx *sql.Tx, holds int) error {
	_, err := tx.ExecContext(ctx, fmt.Sprintf("update %s set held = %d, ends = if(held = 0, null, until), goes = if(held = 0, least(goes, %s + %d), goes) where batch = %d",
		reservationsTable, holds, serverNow, engine.KeptSettled.Milliseconds(), numberOf(w.id)))
	return err
}
