package sqlite

import (
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

// pageSize is the page size of a new database: a body of some kilobytes needs fewer pages.
const pageSize = "page_size(8192)"

// applicationID is in the header of our databases: "UDLD".
const applicationID = 0x55444c44

// migrations lead from each version of the schema to the next. Released migrations never change:
// a change is a new migration.
//
// Times are milliseconds of Unix time. A state is its index in download.States. Other tables
// refer to tasks by seq, which is smaller than the id; seq grows with the time of the task and
// orders lists.
var migrations = []string{`
CREATE TABLE jobs (
	id INTEGER PRIMARY KEY AUTOINCREMENT, -- never given again
	name TEXT NOT NULL,
	priority INTEGER NOT NULL,
	is_on INTEGER NOT NULL,
	filter TEXT NOT NULL,
	version INTEGER NOT NULL,
	lane TEXT NOT NULL,            -- of the newest version, as is the next
	max_attempts INTEGER NOT NULL,
	added INTEGER NOT NULL,
	reported INTEGER NOT NULL DEFAULT 0, -- how many tasks there were when their end was last reported
	dropped INTEGER NOT NULL DEFAULT 0 -- 1: is being removed, and cannot be seen
);
CREATE UNIQUE INDEX jobs_name ON jobs (name) WHERE dropped = 0;
CREATE TABLE versions (
	job INTEGER NOT NULL, version INTEGER NOT NULL,
	setting TEXT NOT NULL,             -- JSON
	code_language TEXT NOT NULL, code_file TEXT NOT NULL, code_text TEXT NOT NULL,
	changed INTEGER NOT NULL,
	PRIMARY KEY (job, version)
) WITHOUT ROWID;
CREATE TABLE counts ( -- of tasks, changed with them
	job INTEGER NOT NULL, state INTEGER NOT NULL, n INTEGER NOT NULL,
	PRIMARY KEY (job, state)
) WITHOUT ROWID;
CREATE TABLE tasks (
	seq INTEGER PRIMARY KEY,
	id BLOB NOT NULL UNIQUE,
	job INTEGER NOT NULL,
	uri TEXT NOT NULL,
	shard INTEGER NOT NULL,
	state INTEGER NOT NULL DEFAULT 0,
	attempts INTEGER NOT NULL DEFAULT 0,
	fence INTEGER NOT NULL DEFAULT 0,
	version INTEGER NOT NULL DEFAULT 0, -- of the job when it was leased last
	rank INTEGER NOT NULL DEFAULT 0,
	not_before INTEGER NOT NULL DEFAULT 0,
	until INTEGER NOT NULL DEFAULT 0,
	added INTEGER NOT NULL,
	owner TEXT NOT NULL DEFAULT '',
	reason TEXT NOT NULL DEFAULT ''
);
CREATE INDEX tasks_state ON tasks (job, state);
CREATE INDEX tasks_waiting ON tasks (job, not_before) WHERE state = 0;
CREATE INDEX tasks_ready ON tasks (rank, not_before, seq, shard, job, until) WHERE state = 1;
CREATE INDEX tasks_until ON tasks (state, until) WHERE state = 1 OR state = 2;
CREATE TABLE data (
	task INTEGER PRIMARY KEY, -- so that there is one of a task at most
	job INTEGER NOT NULL,
	version INTEGER NOT NULL,
	uri TEXT NOT NULL,
	status INTEGER NOT NULL,
	header TEXT NOT NULL, -- JSON
	content_type TEXT NOT NULL,
	encoding TEXT NOT NULL,
	size INTEGER NOT NULL,
	sha256 BLOB NOT NULL,
	host_name TEXT NOT NULL,
	added INTEGER NOT NULL,
	records BLOB
);
CREATE INDEX data_job ON data (job);
CREATE TABLE bodies (
	task INTEGER PRIMARY KEY,
	file TEXT NOT NULL, -- '': it is in body
	body BLOB
);
CREATE TABLE logs (
	seq INTEGER PRIMARY KEY AUTOINCREMENT,
	job INTEGER NOT NULL,
	task INTEGER NOT NULL,
	number INTEGER NOT NULL,
	version INTEGER NOT NULL,
	status INTEGER NOT NULL,
	spent INTEGER NOT NULL, -- microseconds
	added INTEGER NOT NULL,
	host_name TEXT NOT NULL,
	reason TEXT NOT NULL
);
CREATE INDEX logs_added ON logs (job, added);
CREATE INDEX logs_task ON logs (task);
CREATE TABLE refusals (seq INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL, text TEXT NOT NULL, added INTEGER NOT NULL);
CREATE TABLE roles (name TEXT PRIMARY KEY, owner TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID;
`, `
ALTER TABLE tasks ADD COLUMN abandoned INTEGER NOT NULL DEFAULT 0; -- leases; in version 1 they counted as attempts
`, `
-- A task goes through three states in its life at least: what is indexed by its state is written as often.
DROP INDEX tasks_state;
DROP INDEX tasks_until;
CREATE INDEX tasks_job ON tasks (job);
CREATE INDEX tasks_running ON tasks (until) WHERE state = 2;
CREATE INDEX tasks_failed ON tasks (job) WHERE state = 4;
`, `
ALTER TABLE jobs ADD COLUMN needs TEXT NOT NULL DEFAULT ''; -- of the newest version: Job.Needs with blanks between them
UPDATE jobs SET needs = coalesce((SELECT json_extract(v.setting, '$.Engine')
	|| iif(v.code_text || coalesce(json_extract(v.setting, '$.Generate.Code.Text'), '') || coalesce(json_extract(v.setting, '$.Parse.Code.Text'), '') = '', '', ' script')
	|| iif('python' IN (v.code_language, json_extract(v.setting, '$.Generate.Code.Language'), json_extract(v.setting, '$.Parse.Code.Language')), ' python', '')
	FROM versions v WHERE v.job = jobs.id AND v.version = jobs.version), '');
`, `
-- The queue of the host, see download.QueueOf. Older tasks are handed out in turn by their shards.
ALTER TABLE tasks ADD COLUMN queue INTEGER NOT NULL DEFAULT 0;
UPDATE tasks SET queue = shard;
DROP INDEX tasks_waiting;
CREATE INDEX tasks_waiting ON tasks (job, queue, not_before) WHERE state = 0;
DROP INDEX tasks_ready;
CREATE INDEX tasks_ready ON tasks (rank, not_before, seq, shard, job, until, queue) WHERE state = 1;
`}

// prepare creates the database if it is missing, refuses files of other programs, and brings the
// schema up to date.
//
// A database is made under another name and renamed when it is complete: a file under its final
// name always has our header. Until then it uses a rollback journal, so that the header is in the
// file itself and not in a log beside it.
func prepare(ctx context.Context, path string) error {
	there, err := exists(path)
	if err != nil {
		return err
	}
	if !there {
		log, err := exists(path + "-wal")
		if err != nil {
			return err
		}
		if log {
			return &ForeignError{path + "-wal", "is the log of a database that no longer exists"}
		}
		if err := create(ctx, path); err != nil {
			return fmt.Errorf("create %s: %w", path, err)
		}
	}
	if err := checkHeader(path); err != nil {
		return err
	}
	db, err := sqlitefile.Connect(path, 1, "journal_mode(WAL)", "synchronous(FULL)")
	if err != nil {
		return err
	}
	err = migrate(ctx, db, path)
	if err == nil {
		err = quickCheck(ctx, db, path)
	}
	switch {
	case sqlitefile.Corrupt(err):
		err = &DamagedError{path, []string{err.Error()}}
	case err != nil && !errors.As(err, new(*NewerError)) && !errors.As(err, new(*DamagedError)):
		err = fmt.Errorf("%s: %w", path, err)
	}
	return errors.Join(err, db.Close())
}

func create(ctx context.Context, path string) error {
	var fs disk.FS
	tmp := path + ".tmp"
	for _, old := range []string{tmp, tmp + "-journal"} { // left by an interrupted call
		if err := os.Remove(old); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	db, err := sqlitefile.Connect(tmp, 1, pageSize, "journal_mode(DELETE)", "synchronous(FULL)")
	if err != nil {
		return err
	}
	_, err = db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID))
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	f, err := fs.OpenFile("database", tmp, os.O_RDWR)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync("database-sync"), f.Close()); err != nil {
		return err
	}
	if err := fs.Rename("database-rename", tmp, path); err != nil {
		return err
	}
	return fs.SyncDir("database-syncdir", filepath.Dir(path))
}

// checkHeader refuses a file that is not one of our databases, without changing it. For the
// bytes see https://www.sqlite.org/fileformat2.html#the_database_header.
func checkHeader(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	header := make([]byte, 100)
	if _, err := io.ReadFull(f, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return &ForeignError{path, "is not a SQLite database"}
	} else if err != nil {
		return err
	}
	if string(header[:16]) != "SQLite format 3\x00" {
		return &ForeignError{path, "is not a SQLite database"}
	}
	if id := binary.BigEndian.Uint32(header[68:]); id != applicationID {
		return &ForeignError{path, "is a SQLite database of another program"}
	}
	return nil
}

// migrate brings the schema up to date, with one transaction per version.
func migrate(ctx context.Context, db *sql.DB, path string) error {
	for {
		var have int
		if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&have); err != nil {
			return err
		}
		if have > len(migrations) {
			return &NewerError{path, have, len(migrations)}
		}
		if have == len(migrations) {
			return nil
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, migrations[have]+fmt.Sprintf("; PRAGMA user_version = %d", have+1)); err != nil {
			return errors.Join(fmt.Errorf("migration to schema %d: %w", have+1, err), tx.Rollback())
		}
		if err := tx.Commit(); err != nil {
			return err
		}
	}
}
