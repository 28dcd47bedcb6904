package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

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
	var start *disk.Lock
	for start == nil {
		start, err = disk.AcquireLock(filepath.Join(dir, startName))
		if err != nil && !errors.As(err, new(*disk.InUseError)) {
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
