package frontier

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

// Remove removes the database of a crawl that nobody has open.
func Remove(dir string) error {
	var errs []error
	for _, name := range []string{databaseName + "-wal", databaseName + "-shm", databaseName} { // the database last: without it there is no crawl
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Inspect returns what is wrong with the database of a crawl, which may be running, and the committed state of
// each output.
func Inspect(ctx context.Context, dir string) (faults []string, outputs map[string]string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, nil, err
	}
	db, err := sqlitefile.Connect(filepath.Join(dir, databaseName), 1, "query_only(1)")
	if err != nil {
		return nil, nil, err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	faults, err = sqlitefile.Faults(ctx, db, "PRAGMA integrity_check(100)")
	var s state
	if err == nil {
		var text []byte
		if err = db.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = 'state'").Scan(&text); err == nil {
			err = json.Unmarshal(text, &s)
		}
		if errors.Is(err, sql.ErrNoRows) { // nothing was committed yet
			err = nil
		}
	}
	if sqlitefile.Corrupt(err) {
		return append(faults, err.Error()), nil, nil
	}
	return faults, s.Outputs, err
}
