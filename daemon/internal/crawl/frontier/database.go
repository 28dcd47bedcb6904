package frontier

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

// applicationID is in the header of our databases: "UCRW".
const (
	applicationID = 0x55435257
	version       = 1
)

// States of URIs.
const (
	queued     = 0
	waiting    = 1 // for another attempt
	stored     = 2
	failed     = 3
	redirected = 4 // the page belongs to another URI
	elsewhere  = 5 // the shared filter has seen it
)

// schema: ids are in the order of discovery. A key is the first 16 bytes of the SHA-256 of the
// canonical form: nobody can make two URIs with the same key, so that a page cannot hide another.
// Times are milliseconds of Unix time.
const schema = `
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE hosts (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, stored INTEGER NOT NULL DEFAULT 0, held_until INTEGER NOT NULL DEFAULT 0);
CREATE TABLE uris (
	id INTEGER PRIMARY KEY,
	key BLOB NOT NULL UNIQUE,
	uri TEXT NOT NULL,
	host INTEGER NOT NULL,
	depth INTEGER NOT NULL,
	referrer INTEGER NOT NULL, -- where it was found; 0: a seed
	state INTEGER NOT NULL,
	attempts INTEGER NOT NULL DEFAULT 0,
	not_before INTEGER NOT NULL DEFAULT 0,
	reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX uris_queued ON uris (host, depth, id) WHERE state = 0;
CREATE INDEX uris_waiting ON uris (id) WHERE state = 1;
CREATE TABLE pages (id INTEGER PRIMARY KEY, file TEXT NOT NULL, hash BLOB NOT NULL);
CREATE INDEX pages_hash ON pages (hash);
CREATE INDEX pages_file ON pages (file);
`

// Key names a URI, whatever its spelling.
type Key [16]byte

func keyOf(canonical []byte) Key {
	sum := sha256.Sum256(canonical)
	return Key(sum[:16])
}

// prepare makes the tables of an empty database, in one transaction, and refuses a database that is not ours.
func prepare(ctx context.Context, db *sql.DB, path string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	defer tx.Rollback() //nolint:errcheck // it was committed, or there is an error already
	var id, have, tables, holds int64
	if err := errors.Join(
		tx.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id),
		tx.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have),
		tx.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables),
		tx.QueryRowContext(ctx, "SELECT count(*) FROM pragma_table_info('hosts') WHERE name = 'held_until'").Scan(&holds),
	); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	switch {
	case tables == 0 && have == 0:
		if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;%s", applicationID, version, schema)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return tx.Commit()
	case id != applicationID:
		return fmt.Errorf("%s: is not the database of a crawl\nhint: give the crawl its own folder with --out", path)
	case have > version:
		return fmt.Errorf("%s: schema version %d: this program knows up to %d\nhint: use the newer program that wrote it", path, have, version)
	case holds == 0: // of an earlier version, which can still read it afterwards
		if _, err := tx.ExecContext(ctx, "ALTER TABLE hosts ADD COLUMN held_until INTEGER NOT NULL DEFAULT 0"); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return tx.Commit()
	}
	return nil
}

func (f *Frontier) meta(ctx context.Context, name string) ([]byte, error) {
	var value []byte
	err := f.conn.QueryRowContext(ctx, "SELECT value FROM meta WHERE name = ?", name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return value, err
}

func (f *Frontier) setMeta(ctx context.Context, name string, value []byte) error {
	_, err := f.conn.ExecContext(ctx, "INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", name, value)
	return err
}

// writeState saves the counts, and until when hosts are held; the writer must have ended.
func (f *Frontier) writeState() error {
	w, err := f.begin()
	if err != nil {
		return err
	}
	defer w.rollback()
	if err := w.saveHolds(); err != nil {
		return err
	}
	f.mu.Lock()
	s := f.state
	s.Counts = f.countsLocked()
	f.mu.Unlock()
	if err := w.saveState(s); err != nil {
		return err
	}
	return w.commit()
}

// SetSetting replaces the setting of a crawl that exists.
func (f *Frontier) SetSetting(ctx context.Context, setting []byte) error {
	f.setting = setting
	return f.setMeta(ctx, "setting", setting)
}

// SeedRedirects calls each with the seeds that redirected to a page of the crawl, and with where to.
func (f *Frontier) SeedRedirects(ctx context.Context, each func(seed, to string)) error {
	return sqlitefile.Each(ctx, f.read, func(rows *sql.Rows) error {
		var seed, to string
		err := rows.Scan(&seed, &to)
		each(seed, to)
		return err
	}, "SELECT s.uri, t.uri FROM uris t JOIN uris s ON s.id = t.referrer WHERE t.depth = 0 AND s.depth = 0 AND s.referrer = 0 ORDER BY t.id")
}

// HasFile reports whether a stored page has that file.
func (f *Frontier) HasFile(ctx context.Context, file string) (bool, error) {
	var n int
	err := f.read.QueryRowContext(ctx, "SELECT count(*) FROM (SELECT 1 FROM pages WHERE file = ? LIMIT 1)", file).Scan(&n)
	return n > 0, err
}

// Exists reports whether a folder has a frontier. Open makes one if there is none.
func Exists(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, databaseName))
	return err == nil
}

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
