package frontier

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
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
	db, err := connect(filepath.Join(dir, databaseName), 1, "query_only(1)")
	if err != nil {
		return nil, nil, err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	rows, err := db.QueryContext(ctx, "PRAGMA integrity_check(100)")
	if err == nil {
		err = eachRow(rows, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil || text == "ok" {
				return err
			}
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); !strings.HasPrefix(line, "***") { // which database it is
					faults = append(faults, line)
				}
			}
			return nil
		})
	}
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
	const corrupt, notADatabase = 11, 26
	if e := (*sqlite3.Error)(nil); errors.As(err, &e) && (e.Code()&0xff == corrupt || e.Code()&0xff == notADatabase) {
		return append(faults, err.Error()), nil, nil
	}
	return faults, s.Outputs, err
}
