// Package sqlite keeps the downloader's jobs, tasks, data and logs in one folder of this machine: a
// SQLite database, and files beside it for large bodies. It is for one process, or for several of
// one machine that all ask to share it; others are refused. It does not decide which task comes
// when; see package download.
//
// All changes of a process go through one goroutine. It commits those of many callers in one
// transaction, because the disk sync is expensive. Reads use separate connections and wait for nothing.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Files in the folder.
const (
	databaseName = "download.db"
	bodiesName   = "bodies"
	lockName     = "download.lock"
	startName    = "download.start" // held by a process that shares the folder, while it opens it
	gateName     = "download.write" // held by a process that shares the folder, while it changes the database
)

// Options say which folder, and how it is used.
type Options struct {
	// Dir is created if it is missing.
	Dir string
	// Now is the clock; nil: the system's.
	Now func() time.Time
	// EndLeases ends the leases of tasks and names that earlier processes have left, unless another
	// process uses the folder now. It is for a program whose workers all use the folder: a start
	// after a crash need not wait for a lease to expire.
	EndLeases bool
	// Shared lets other processes of this machine use the folder at the same time, if they ask for
	// it, too. They must have the same clock, and the folder must not be on a network file system.
	Shared bool
	// Inline is the size in bytes up to which bodies are kept in the database. 0: 1 MiB.
	Inline int
	// Readers is how many calls can read at once. 0: 4.
	Readers int
	// Committed, if not nil, is called after each durable transaction with the number of callers'
	// changes in it. It must return quickly; one goroutine calls it.
	Committed func(changes int)
	// Failed, if not nil, is called once, with the reason, when the disk has failed to write or to
	// sync. All changes are refused from then on, so the program should end and be started again. It
	// must return quickly.
	Failed func(reason error)
}

// Store implements download.Store. It is safe for concurrent use.
type Store struct {
	opt  Options
	lock *disk.Lock
	read *sql.DB
	// reading holds the prepared statements for reads, by their text.
	reading sync.Map

	bodies  bodies
	changes chan *change
	writer  *writer
	stopped chan struct{} // closed when the writer has ended

	damage atomic.Pointer[DamagedError] // the first that a call has met

	mu     sync.RWMutex // held for reading while a change is sent
	closed bool
}

var _ download.Store = (*Store)(nil)

var errClosed = errors.New("the store is closed")

// Open opens or creates the store in a folder. If another process uses the folder, the error
// is a *disk.InUseError, for a database of a later version a *NewerError, and for a file
// that is not a database of this package a *ForeignError.
func Open(ctx context.Context, o Options) (_ *Store, err error) {
	o.Inline = cmp.Or(o.Inline, 1<<20)
	o.Readers = cmp.Or(o.Readers, 4)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Dir, err = filepath.Abs(o.Dir); err != nil { // a file URL needs an absolute path
		return nil, err
	}
	var fs disk.FS
	if err := fs.MkdirAll("download-dir", o.Dir); err != nil {
		return nil, err
	}
	s := &Store{opt: o, changes: make(chan *change, maxTogether), stopped: make(chan struct{})}
	s.bodies.dir = filepath.Join(o.Dir, bodiesName)
	alone := true
	if o.Shared {
		var done func()
		if s.lock, alone, done, err = shareFolder(ctx, o.Dir); err != nil {
			return nil, err
		}
		defer done()
	} else if s.lock, err = disk.AcquireLock(filepath.Join(o.Dir, lockName)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = s.lock.Release()
		}
	}()
	if err := fs.MkdirAll("download-bodies", s.bodies.dir); err != nil {
		return nil, err
	}
	path := filepath.Join(o.Dir, databaseName)
	if err := prepare(ctx, path); err != nil {
		return nil, err
	}
	if s.writer, err = newWriter(ctx, s, path); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if o.EndLeases && alone {
		if err := errors.Join(s.writer.exec("DELETE FROM roles WHERE instr(name, ?) <> 1", download.PausePrefix), s.writer.exec("UPDATE OR ROLLBACK tasks SET until = 0 WHERE state = 2")); err != nil {
			return nil, errors.Join(err, s.writer.close())
		}
	}
	if s.read, err = sqlitefile.Connect(path, o.Readers, "query_only(1)"); err != nil {
		return nil, errors.Join(err, s.writer.close())
	}
	go func() {
		defer close(s.stopped)
		s.writer.run(s.changes)
	}()
	return s, nil
}

// each calls scan for every row that a statement reads, and notices damage. The statement is prepared
// once and kept, so there must be few different texts.
func (s *Store) each(ctx context.Context, scan func(*sql.Rows) error, text string, args ...any) error {
	known, ok := s.reading.Load(text)
	if !ok {
		prepared, err := s.read.PrepareContext(ctx, text)
		if err != nil {
			return s.noticed(err)
		}
		var first bool
		if known, first = s.reading.LoadOrStore(text, prepared); first { // another goroutine was faster
			if err := prepared.Close(); err != nil {
				return err
			}
		}
	}
	rows, err := known.(*sql.Stmt).QueryContext(ctx, args...)
	if err != nil {
		return s.noticed(err)
	}
	return s.noticed(sqlitefile.EachRow(rows, scan))
}

// collect returns what scan makes of every row that a statement reads.
func collect[T any](ctx context.Context, s *Store, scan func(*sql.Rows) (T, error), text string, args ...any) (all []T, err error) {
	err = s.each(ctx, func(rows *sql.Rows) error {
		one, err := scan(rows)
		all = append(all, one)
		return err
	}, text, args...)
	return all, err
}

// Now is the clock of Options.
func (s *Store) Now(context.Context) (time.Time, error) { return timeOf(s.now()), nil }

func (s *Store) now() int64 { return s.opt.Now().UnixMilli() }

// Close waits for the changes that are under way. Calls after it return an error.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.changes)
	s.mu.Unlock()
	<-s.stopped
	return errors.Join(s.read.Close(), s.writer.close(), s.lock.Release())
}

// millis is a time as it is stored: milliseconds of Unix time, 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func timeOf(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	return time.UnixMilli(millis).UTC()
}

// ForeignError is returned if the file in the place of the database is not ours.
type ForeignError struct {
	Path   string
	Reason string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s: %s\nhint: give the downloader a data directory of its own", e.Path, e.Reason)
}

// NewerError is returned for a database that a later version of the program has written.
type NewerError struct {
	Path        string
	Have, Known int // versions of the schema
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("%s: schema version %d: this program knows up to %d\nhint: use the newer program that wrote it", e.Path, e.Have, e.Known)
}

// exists reports whether a file exists.
func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Several processes may use one folder. These rules make that safe:
//
//   - SQLite lets one of them change the database at a time, and a lease is checked within the
//     change.
//   - They queue for that at a gate. SQLite itself would make them poll, up to a tenth of a second
//     apart, and a busy process would starve the others.
//   - A writer reloads the jobs that it remembers when another process has changed anything
//     (othersChanged).
//   - They open the folder one after the other (shareFolder), so that only the first one makes the
//     database, brings its schema up to date, and ends the leases of the dead.
//   - The file of a body that no row names yet is kept as long as the lease exists that can still
//     add the row (useOf).
//
// A disk failure stops the process that notices it; others notice it when they write.

// shareFolder takes the folder together with other processes, and reports whether there are none.
// The next process waits until done is called.
func shareFolder(ctx context.Context, dir string) (lock *disk.Lock, alone bool, done func(), err error) {
	start, err := disk.AwaitLock(ctx, filepath.Join(dir, startName), nil)
	if err != nil {
		return nil, false, nil, err
	}
	lock, alone, err = disk.AcquireSharedLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, false, nil, errors.Join(err, start.Release())
	}
	return lock, alone, func() { _ = start.Release() }, nil
}

// othersChanged reports, within a transaction, whether another process has changed the database
// since the last call.
func (w *writer) othersChanged() (bool, error) {
	var version int64
	err := w.each(func(rows *sql.Rows) error { return rows.Scan(&version) }, "PRAGMA data_version")
	changed := version != w.version
	w.version = version
	return changed, err
}

// useOfBody tells whether a row names a file, and whether a call under way, perhaps in another
// process, may commit such a row: the lease in the file's name has not been settled, given back or
// taken over. Once both are false, the file will never have a row.
const useOfBody = `SELECT EXISTS (SELECT 1 FROM bodies b JOIN tasks t ON t.seq = b.task WHERE t.id = ?1 AND b.file = ?2),
	EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND fence = ?3 AND +state = 2)`

// useOf says how a file is used. Without other processes, bodies knows the calls under way.
func (s *Store) useOf(ctx context.Context, file string) (named, leased bool, err error) {
	_, name, _ := strings.Cut(file, "/")
	task, rest, _ := strings.Cut(name, "-")
	fence, _, _ := strings.Cut(rest, "-")
	err = s.read.QueryRowContext(ctx, useOfBody, idBytes(task), file, fence).Scan(&named, &leased)
	return named, leased && s.opt.Shared, err
}
