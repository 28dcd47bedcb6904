package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

// Several processes may have one folder. What makes that sound:
//
//   - SQLite lets one of them change the database at a time, and what a lease says is looked at
//     within the change.
//   - They wait for that at a gate, in turn: SQLite itself would have them look again and again, up
//     to a tenth of a second apart, and one that is busy would leave nothing to the others.
//   - The jobs that a writer remembers are read again when another process has changed anything
//     (othersChanged).
//   - They open the folder one after the other (shareFolder), so that only the first one makes the
//     database, brings its schema up to date, and ends the leases of the dead.
//   - A file of a body that no row names yet is kept while the lease is there by which it can get its
//     row (useOf).
//
// A disk that failed stops the process that saw it; others see it when they write.

// shareFolder takes the folder beside others, and tells whether there are none. The next one waits
// until done is called.
func shareFolder(ctx context.Context, dir string) (lock *durable.Lock, alone bool, done func(), err error) {
	var start *durable.Lock
	for start == nil {
		start, err = durable.AcquireLock(filepath.Join(dir, startName))
		if err != nil && !errors.As(err, new(*durable.InUseError)) {
			return nil, false, nil, err
		}
		if start == nil {
			select {
			case <-ctx.Done():
				return nil, false, nil, context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	lock, alone, err = durable.AcquireSharedLock(filepath.Join(dir, lockName))
	if err != nil {
		return nil, false, nil, errors.Join(err, start.Release())
	}
	return lock, alone, func() { _ = start.Release() }, nil
}

// othersChanged tells, in a transaction, whether another process has changed the database since the
// last time that it was asked.
func (w *writer) othersChanged() (bool, error) {
	var version int64
	err := w.each(func(rows *sql.Rows) error { return rows.Scan(&version) }, "PRAGMA data_version")
	changed := version != w.version
	w.version = version
	return changed, err
}

// useOfBody tells whether a row names a file, and whether a call under way, perhaps in another process,
// may commit such a row: the lease in the file's name has not been settled, given back or taken over.
// A file of which both are false once has no row ever.
const useOfBody = `SELECT EXISTS (SELECT 1 FROM bodies b JOIN tasks t ON t.seq = b.task WHERE t.id = ?1 AND b.file = ?2),
	EXISTS (SELECT 1 FROM tasks WHERE id = ?1 AND fence = ?3 AND +state = 2)`

// useOf is how a file is used. Without other processes the calls under way are known, see bodies.
func (s *Store) useOf(ctx context.Context, file string) (named, leased bool, err error) {
	_, name, _ := strings.Cut(file, "/")
	task, rest, _ := strings.Cut(name, "-")
	fence, _, _ := strings.Cut(rest, "-")
	err = s.read.QueryRowContext(ctx, useOfBody, idBytes(task), file, fence).Scan(&named, &leased)
	return named, leased && s.opt.Shared, err
}
