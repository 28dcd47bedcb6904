package mysql

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

const (
	filtersTable = "urifilter_filters"
	idsTable     = "urifilter_ids"
	itemsPrefix  = "urifilter_items_"
)

// Comments of the tables, by which they are recognized as ours and as of this version.
const (
	filtersComment = "urifilter: filters, format 1"
	idsComment     = "urifilter: ids, format 1"
	itemsComment   = "urifilter: items, format 1"
)

// definitions are the tables that all filters share.
var definitions = map[string]string{
	filtersTable: "create table " + filtersTable + " (name varchar(64) character set ascii collate ascii_bin not null primary key," +
		" id int unsigned not null unique key, entry text character set utf8mb4 not null, items_table varchar(64) character set ascii not null)" +
		" engine = InnoDB comment = '" + filtersComment + "'",
	idsTable: "create table " + idsTable + " (name varchar(64) character set ascii collate ascii_bin not null primary key," +
		" id int unsigned not null) engine = InnoDB comment = '" + idsComment + "'",
	reservationsTable: reservationsDefinition,
	reservedTable:     reservedDefinition,
	quarantineTable:   quarantineDefinition,
}

// querier is a connection, or a pool of them.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// entry is a filter as the registry has it.
type entry struct {
	spec       engine.Spec
	seed       uint64
	generation uint64
	created    int64  // Unix time in ms
	table      string // of its items

	// unread says why the entry cannot be read, and text is what is there; of spec, only id and name are
	// known. "": it can be read.
	unread, text string
}

// newEntry makes an entry with a table of its own, so that a daemon that does not know yet that
// the filter has ended never adds to the next one of its name.
func newEntry(spec engine.Spec, b engine.Identity) (entry, error) {
	e := entry{spec: spec, seed: b.Seed, generation: b.Generation, created: b.Created.UnixMilli()}
	e.table = fmt.Sprintf("%s%d_%08x", itemsPrefix, spec.ID, rand.Uint32())
	_, err := e.encode()
	return e, err
}

func (e entry) encode() (string, error) {
	if e.unread != "" {
		return e.text, nil
	}
	text, err := e.spec.AppendJSON(nil, configs.Member{Key: "generation", Value: e.generation},
		configs.Member{Key: "seed", Value: strconv.FormatUint(e.seed, 16)}, configs.Member{Key: "created", Value: e.created})
	return string(text), err
}

func decodeEntry(text, table string) (e entry, err error) {
	var own struct {
		Generation uint64 `json:"generation"`
		Seed       string `json:"seed"`
		Created    int64  `json:"created"`
	}
	if err := json.Unmarshal([]byte(text), &own); err != nil {
		return e, err
	}
	e = entry{generation: own.Generation, created: own.Created, table: table}
	if e.seed, err = strconv.ParseUint(own.Seed, 16, 64); err != nil {
		return e, err
	}
	e.spec, err = configs.ParseJSON([]byte(text), false)
	return e, err
}

// readEntries returns all filters of the registry, with those that cannot be read.
func readEntries(ctx context.Context, c querier) (all []entry, err error) {
	rows, err := c.QueryContext(ctx, "select name, id, entry, items_table from "+filtersTable+" order by id")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var name, text, table string
		var id int
		if err := rows.Scan(&name, &id, &text, &table); err != nil {
			return nil, err
		}
		e, err := decodeEntry(text, table)
		if err == nil && e.spec.Name != name {
			err = fmt.Errorf("is the entry of %s", e.spec.Name)
		}
		if err == nil && (!strings.HasPrefix(table, itemsPrefix) || strings.ContainsAny(table, "`\\ ")) {
			err = fmt.Errorf("items_table %q: want a name that begins with %s", table, itemsPrefix)
		}
		if err != nil {
			e = entry{spec: engine.Spec{ID: id, Name: name}, table: table, text: text}
			e.unread = fmt.Sprintf("table %s, name %s: %v\nhint: it was written by another program or a newer urifilter: update this one, or drop the filter, which moves the entry to table %s", filtersTable, name, err, quarantineTable)
		}
		all = append(all, e)
	}
	return all, rows.Err()
}

// entryOf finds the filter of a spec.
func entryOf(all []entry, spec engine.Spec) (entry, bool) {
	i := slices.IndexFunc(all, func(e entry) bool { return e.spec == spec })
	if i < 0 {
		return entry{}, false
	}
	return all[i], true
}

func insertEntry(ctx context.Context, c querier, e entry) error {
	text, err := e.encode()
	if err == nil {
		_, err = c.ExecContext(ctx, "insert into "+filtersTable+" (name, id, entry, items_table) values (?, ?, ?, ?)", e.spec.Name, e.spec.ID, text, e.table)
	}
	return err
}

// replaceEntry replaces old with e.
func replaceEntry(ctx context.Context, c querier, old, e entry) error {
	text, err := e.encode()
	if err == nil {
		_, err = c.ExecContext(ctx, "update "+filtersTable+" set entry = ?, items_table = ? where name = ? and items_table = ?", text, e.table, e.spec.Name, old.table)
	}
	return err
}

// deleteEntry removes an entry and, in the same statement, the id of its name: if the filter is created
// again, it gets another one. It reports whether the entry existed.
func deleteEntry(ctx context.Context, c querier, e entry) (bool, error) {
	done, err := c.ExecContext(ctx, "delete f, i from "+filtersTable+" f left join "+idsTable+" i on i.name = f.name where f.name = ? and f.items_table = ?", e.spec.Name, e.table)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

// changeTimeout bounds a change of the registry: dropping a large table takes time.
const changeTimeout = 5 * time.Minute

// locked runs something that changes the registry, alone among all daemons that share the
// database. The end of the caller's context does not interrupt it. The lock ends with its
// connection.
func (s *Store) locked(ctx context.Context, do func(ctx context.Context, c *sql.Conn) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	c, err := s.admin.Conn(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	name := fmt.Sprintf("urifilter.%08x", crc32.ChecksumIEEE([]byte(s.opt.Database)))
	var got sql.NullInt64
	if err := c.QueryRowContext(ctx, "select get_lock(?, ?)", name, int(lockTimeout.Seconds())).Scan(&got); err != nil {
		return err
	}
	if got.Int64 != 1 {
		return fmt.Errorf("another daemon has been changing filters for %s: %w", lockTimeout, engine.ErrUnavailable)
	}
	defer func() {
		var released sql.NullInt64
		err = errors.Join(err, c.QueryRowContext(ctx, "select release_lock(?)", name).Scan(&released))
	}()
	if err := do(ctx, c); err != nil {
		return err
	}
	return s.waitForRead(ctx, c) // what was decided by it may be answered
}

// comments returns the comments of the tables whose names begin as ours do.
func comments(ctx context.Context, c querier) (map[string]string, error) {
	all := map[string]string{}
	var name, comment string
	return all, eachRow(ctx, c,
		"select table_name, table_comment from information_schema.tables where table_schema = database() and table_name like 'urifilter\\_%'",
		func() { all[name] = comment }, &name, &comment)
}

// foreign returns the error for a table that is not ours, or is of another version.
func (s *Store) foreign(table, comment, want string) error {
	kind, _, _ := strings.Cut(want, ",")
	if strings.HasPrefix(comment, kind+",") {
		return fmt.Errorf("table %s.%s: is of a newer urifilter (%s)\nhint: update this one", s.opt.Database, table, comment)
	}
	return fmt.Errorf("table %s.%s: is of another program (its comment is %q, ours would be %q)\nhint: give urifilter a database of its own (mysql.database), or rename that table", s.opt.Database, table, comment, want)
}

// ensureTables creates the tables that all filters share, if they are missing.
func (s *Store) ensureTables(ctx context.Context) error {
	look := func(c querier) (missing []string, err error) {
		have, err := comments(ctx, c)
		for _, t := range []struct{ name, comment string }{
			{filtersTable, filtersComment}, {idsTable, idsComment}, {reservationsTable, reservationsComment}, {reservedTable, reservedComment}, {quarantineTable, quarantineComment},
		} {
			comment, there := have[t.name]
			switch {
			case err != nil:
			case !there:
				missing = append(missing, t.name)
			case comment != t.comment:
				err = s.foreign(t.name, comment, t.comment)
			}
		}
		return missing, err
	}
	if missing, err := look(s.admin); err != nil || len(missing) == 0 {
		return err
	}
	return s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		missing, err := look(c) // another daemon may have been quicker
		for _, name := range missing {
			if err == nil {
				_, err = c.ExecContext(ctx, definitions[name])
				s.made = true
			}
		}
		return err
	})
}

func createItems(ctx context.Context, c querier, table string) error {
	_, err := c.ExecContext(ctx, "create table `"+table+"` (k binary(16) not null primary key, batch bigint unsigned not null) engine = InnoDB comment = '"+itemsComment+"'")
	return err
}

func dropTable(ctx context.Context, c querier, table string) error {
	_, err := c.ExecContext(ctx, "drop table if exists `"+table+"`")
	return err
}

// checkItems verifies that the table of a filter exists and is ours.
func checkItems(ctx context.Context, c querier, e entry) error {
	have, err := comments(ctx, c)
	if err != nil {
		return err
	}
	comment, there := have[e.table]
	switch {
	case !there:
		return shared.Damaged(fmt.Errorf("its table %s is gone\nhint: bring it back from a backup, or drop the filter", e.table))
	case comment != itemsComment:
		return shared.Damaged(fmt.Errorf("table %s is of another program or a newer urifilter (its comment is %q, ours would be %q)\nhint: rename that table, or update this urifilter", e.table, comment, itemsComment))
	}
	return nil
}

// tidy drops the tables of items that no filter has: an interrupted change left them. A table
// that is being created is not among them, because its creator has the lock.
func (s *Store) tidy(ctx context.Context) error {
	orphans := func(c querier) ([]string, error) {
		entries, err := readEntries(ctx, c)
		if err != nil {
			return nil, err
		}
		kept, err := putAwayTables(ctx, c)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(entries, func(e entry) bool { return e.unread != "" }) {
			return nil, nil // which table it has is not certain
		}
		have, err := comments(ctx, c)
		var found []string
		for table, comment := range have {
			if strings.HasPrefix(table, itemsPrefix) && comment == itemsComment && !kept[table] && !slices.ContainsFunc(entries, func(e entry) bool { return e.table == table }) {
				found = append(found, table)
			}
		}
		return found, err
	}
	if found, err := orphans(s.admin); err != nil || len(found) == 0 {
		return err
	}
	return s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		found, err := orphans(c)
		for _, table := range found {
			if err == nil {
				err = dropTable(ctx, c, table)
				s.log.Info("table that no filter has is dropped", "table", table, "err", err)
			}
		}
		return err
	})
}
