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
	s := &Store{opt: o, changes: make(chan *change, mostTogether), stopped: make(chan struct{})}
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
		if err := errors.Join(s.writer.exec("DELETE FROM roles"), s.writer.exec("UPDATE OR ROLLBACK tasks SET until = 0 WHERE state = 2")); err != nil {
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

// query runs a read statement. It is prepared once and kept, so there must be few different texts.
func (s *Store) query(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	known, ok := s.reading.Load(text)
	if !ok {
		prepared, err := s.read.PrepareContext(ctx, text)
		if err != nil {
			return nil, s.noticed(err)
		}
		var first bool
		if known, first = s.reading.LoadOrStore(text, prepared); first { // another goroutine was faster
			if err := prepared.Close(); err != nil {
				return nil, err
			}
		}
	}
	rows, err := known.(*sql.Stmt).QueryContext(ctx, args...)
	return rows, s.noticed(err)
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
