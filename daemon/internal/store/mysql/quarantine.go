package mysql

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A filter whose entry cannot be read, whose table is missing or not ours, or whose kind is unknown here,
// is in quarantine.

const (
	// quarantineTable has the entries that were dropped from quarantine: with the seed in its
	// entry, a table that is restored can be read.
	quarantineTable      = "urifilter_quarantine"
	quarantineComment    = "urifilter: quarantine, format 1"
	quarantineDefinition = "create table " + quarantineTable + " (items_table varchar(64) character set ascii collate ascii_bin not null primary key," +
		" moment timestamp not null default current_timestamp, name varchar(64) character set ascii collate ascii_bin not null," +
		" id int unsigned not null, entry text character set utf8mb4 not null) engine = InnoDB comment = '" + quarantineComment + "'"
)

var _ engine.Quarantiner = (*Store)(nil)

// where distinguishes successive entries of one name.
func (e entry) where() string { return fmt.Sprintf("table %s, items_table %s", filtersTable, e.table) }

// quarantine notes a filter that is not served, unless it is known already.
func (s *Store) quarantine(e entry, cause error) (q engine.Quarantined, known bool) {
	return s.bad.Add(engine.Quarantined{ID: e.spec.ID, Name: e.spec.Name, Where: e.where(), Cause: s.opt.explain(cause)})
}

// confine puts a filter that another daemon has created into quarantine, unless it was dropped
// since.
func (s *Store) confine(ctx context.Context, e entry, cause error) error {
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return err
	}
	if now, found := entryOf(entries, e.spec); !found || now != e {
		return nil
	}
	if q, known := s.quarantine(e, cause); !known {
		s.feed.Send(engine.Change{Spec: e.spec, Bad: &q})
	}
	return nil
}

// followQuarantine reports filters in quarantine that are no longer in the registry, or whose
// entry there is another one.
func (s *Store) followQuarantine(there map[string]entry) {
	s.bad.Follow(s.feed, func(q engine.Quarantined) bool {
		e, found := there[q.Name]
		return found && e.where() == q.Where
	})
}

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined { return s.bad.Quarantined() }

// PutAway implements engine.Quarantiner: the entry is moved out of the registry. The table, if it
// exists, stays.
func (s *Store) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	err = s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		entries, err := readEntries(ctx, c)
		if err != nil {
			return err
		}
		for _, e := range entries {
			if e.spec.Name != q.Name || e.where() != q.Where {
				continue
			}
			text, err := e.encode()
			if err == nil {
				_, err = c.ExecContext(ctx, "replace into "+quarantineTable+" (items_table, name, id, entry) values (?, ?, ?, ?)", e.table, e.spec.Name, e.spec.ID, text)
			}
			if err == nil {
				_, err = deleteEntry(ctx, c, e)
			}
			return err
		}
		return nil // another daemon was quicker
	})
	if err != nil {
		return "", s.trouble(err)
	}
	s.bad.Remove(q)
	return fmt.Sprintf("table %s, name %s", quarantineTable, q.Name), nil
}

// putAwayTables returns the item tables of filters that were dropped from quarantine.
func putAwayTables(ctx context.Context, c querier) (map[string]bool, error) {
	tables := map[string]bool{}
	var table string
	err := eachRow(ctx, c, "select items_table from "+quarantineTable, func() { tables[table] = true }, &table)
	return tables, err
}
