package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const (
	// startCheck is how long a start looks for damage. A database of some hundred megabytes is looked at as a
	// whole in this time; of a larger one, what comes first.
	startCheck = time.Second
	maxFaults  = 100 // that are named
)

// DamagedError is returned for a database that is not whole.
type DamagedError struct {
	Path   string
	Faults []string // as SQLite names them
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s: the database is damaged: %s\nhint: `uridownloader verify` says all that is wrong; stop the program and put the folder back from a copy, or move it away to begin again",
		e.Path, strings.Join(e.Faults[:min(len(e.Faults), 3)], "; "))
}

// noticed remembers that a call has met damage, for Ready.
func (s *Store) noticed(err error) error {
	if err == nil || !sqlitefile.Corrupt(err) {
		return err
	}
	damage := &DamagedError{filepath.Join(s.opt.Dir, databaseName), []string{err.Error()}}
	s.damage.CompareAndSwap(nil, damage)
	return damage
}

// newest reads a row of each table.
const newest = `SELECT (SELECT max(id) FROM jobs), (SELECT max(seq) FROM tasks), (SELECT max(task) FROM data), (SELECT max(seq) FROM logs),
	(SELECT length(body) FROM bodies ORDER BY task DESC LIMIT 1), (SELECT count(*) FROM roles), (SELECT sum(n) FROM counts)`

// Ready implements download.Store.
func (s *Store) Ready(ctx context.Context) error {
	if damage := s.damage.Load(); damage != nil {
		return damage
	}
	return s.each(ctx, func(*sql.Rows) error { return nil }, newest)
}

// quickCheck looks for damage, as far as it gets in the time of a start.
func quickCheck(ctx context.Context, db *sql.DB, path string) error {
	limited, cancel := context.WithTimeout(ctx, startCheck)
	defer cancel()
	faults, err := sqlitefile.Faults(limited, db, "PRAGMA quick_check(3)")
	switch {
	case len(faults) > 0:
		return &DamagedError{path, faults}
	case err != nil && limited.Err() != nil:
		return ctx.Err()
	}
	return err
}

// Inspection reads the store of a folder to check it, also while others use it. It changes nothing.
type Inspection struct{ *Store }

// Inspect opens the store of a folder, which must exist.
func Inspect(dir string) (*Inspection, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, databaseName)
	if err := checkHeader(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: there is no store of a downloader\nhint: name the folder that `uridownloader serve` has as its --data-dir", dir)
	} else if err != nil {
		return nil, err
	}
	s := &Store{opt: Options{Dir: dir, Now: time.Now}}
	s.bodies.dir = filepath.Join(dir, bodiesName)
	if s.read, err = sqlitefile.Connect(path, 2, "query_only(1)"); err != nil {
		return nil, err
	}
	return &Inspection{s}, nil
}

// Database returns what is wrong with the database: with its pages, and between its tables and indexes.
func (i *Inspection) Database(ctx context.Context) ([]string, error) {
	faults, err := sqlitefile.Faults(ctx, i.read, fmt.Sprintf("PRAGMA integrity_check(%d)", maxFaults))
	if err != nil && sqlitefile.Corrupt(err) {
		return append(faults, err.Error()), nil
	}
	return faults, err
}

// Close closes the database.
func (i *Inspection) Close() error { return i.read.Close() }

var _ download.Records = (*Inspection)(nil)
