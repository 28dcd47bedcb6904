// Package sqlitefile has what the programs that keep a SQLite database in a folder do alike: they open
// connections to it, read rows, and look for damage. Schemas and statements are theirs.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"net/url"
	"path/filepath"
	"strings"

	sqlite3 "modernc.org/sqlite"
)

// Connect makes a pool of that many connections to a database, each with the pragmas.
func Connect(path string, limit int, pragmas ...string) (*sql.DB, error) {
	query := url.Values{"_txlock": {"immediate"}, "_pragma": append([]string{"busy_timeout(60000)"}, pragmas...)}
	name := (&url.URL{Scheme: "file", Path: filepath.ToSlash(path), RawQuery: query.Encode()}).String()
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(limit)
	db.SetMaxIdleConns(limit)
	return db, nil
}

// Each calls scan for every row of a query.
func Each(ctx context.Context, db *sql.DB, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return EachRow(rows, scan)
}

// EachRow calls scan for every row, and closes rows.
func EachRow(rows *sql.Rows, scan func(*sql.Rows) error) error {
	for rows.Next() {
		if err := scan(rows); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

// Faults returns what a check, such as "PRAGMA integrity_check(100)", finds wrong.
func Faults(ctx context.Context, db *sql.DB, check string) (faults []string, err error) {
	err = Each(ctx, db, func(rows *sql.Rows) error {
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
	}, check)
	return faults, err
}

// Corrupt reports whether SQLite has found that a database is damaged, or is none.
func Corrupt(err error) bool {
	const corrupt, notADatabase = 11, 26
	code := code(err)
	return code == corrupt || code == notADatabase
}

// Broken reports whether the disk may lack data that SQLite believes to be on it.
func Broken(err error) bool {
	const ioError = 10
	return code(err) == ioError || Corrupt(err)
}

// code is the primary result code of an error of SQLite; 0: it is another error.
func code(err error) int {
	if e := (*sqlite3.Error)(nil); errors.As(err, &e) {
		return e.Code() & 0xff
	}
	return 0
}
