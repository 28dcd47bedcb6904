package mysqlstore

import (
	"context"
	"database/sql"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// highestName is the row of idsTable with the highest id that was given; the others are the names
// of filters that are being made or are there.
const highestName = ":highest"

// TakeID implements engine.Numbers.
func (s *Store) TakeID(ctx context.Context, name string, least int) (id int, err error) {
	return id, s.number(ctx, func(have map[string]int) map[string]int {
		if id = have[name]; id >= least {
			return nil
		}
		id = max(least, have[highestName]+1)
		return map[string]int{highestName: id, name: id}
	})
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(ctx context.Context, id int) error {
	return s.number(ctx, func(have map[string]int) map[string]int {
		if have[highestName] >= id {
			return nil
		}
		return map[string]int{highestName: id}
	})
}

// number changes idsTable in one step: set says which rows get which ids, given what is there.
func (s *Store) number(ctx context.Context, set func(have map[string]int) map[string]int) error {
	return s.trouble(s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		have, err := readIDs(ctx, c)
		if err != nil {
			return err
		}
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer rollback(tx)
		for name, id := range set(have) {
			if _, err := tx.ExecContext(ctx, "insert into "+idsTable+" (name, id) values (?, ?) on duplicate key update id = values(id)", name, id); err != nil {
				return err
			}
		}
		return tx.Commit()
	}))
}

func readIDs(ctx context.Context, c querier) (map[string]int, error) {
	rows, err := c.QueryContext(ctx, "select name, id from "+idsTable)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	have := map[string]int{}
	for rows.Next() {
		var name string
		var id int
		if err := rows.Scan(&name, &id); err != nil {
			return nil, err
		}
		have[name] = id
	}
	return have, rows.Err()
}

var _ engine.Numbers = (*Store)(nil)
