package frontier

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
)

// Faults returns what is wrong with the database of a crawl, which may be running.
func Faults(ctx context.Context, dir string) (faults []string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	db, err := connect(filepath.Join(dir, databaseName), 1, "query_only(1)")
	if err != nil {
		return nil, err
	}
	defer db.Close() //nolint:errcheck // nothing was written
	rows, err := db.QueryContext(ctx, "PRAGMA integrity_check(100)")
	if err == nil {
		err = eachRow(rows, func(rows *sql.Rows) error {
			var text string
			if err := rows.Scan(&text); err != nil || text == "ok" {
				return err
			}
			faults = append(faults, strings.Split(text, "\n")...)
			return nil
		})
	}
	const corrupt, notADatabase = 11, 26
	if e := (*sqlite3.Error)(nil); errors.As(err, &e) && (e.Code()&0xff == corrupt || e.Code()&0xff == notADatabase) {
		return append(faults, err.Error()), nil
	}
	return faults, err
}
