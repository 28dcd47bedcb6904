package mysql

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// letGoEvery is how often the store looks for reservations to discard.
	letGoEvery = time.Second
	// letGoMost is how many are discarded in one transaction, if they hold nothing.
	letGoMost = 100
)

// letGo discards reservations that ended long ago, until the store is closed. Several daemons may
// do so at once.
func (s *Store) letGo() {
	tick := time.NewTicker(letGoEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.run.Done():
			return
		case <-tick.C:
		}
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
		err := eachRow(ctx, s.admin, fmt.Sprintf("select batch, held from %s where goes <= %s order by goes limit %d", reservationsTable, serverNow, letGoMost), func() {
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
		if len(settled)+len(holding) < letGoMost {
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
