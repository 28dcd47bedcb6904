package embedded

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
)

// The folder of a filter may be a symbolic link to one elsewhere, such as on a larger disk. The
// lock of the data directory does not cover that one, so it has a lock of its own while it is in
// use. Where a link leads to nothing, because the disk is not mounted, its filter is quarantined
// like one that is damaged, never made again.
//
// A filter is dropped by renaming the link. What is behind it is removed file by file, and only what
// is a filter's: the folder may be a mount point, or have other files too.

// isLink tells whether the folder is a symbolic link.
func isLink(dir string) bool {
	info, err := os.Lstat(dir)
	return err == nil && info.Mode()&os.ModeSymlink != 0
}

// lockLink locks the folder if it is a link; otherwise the lock is nil.
func lockLink(dir string) (*disk.Lock, error) {
	if !isLink(dir) {
		return nil, nil
	}
	if info, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !info.IsDir() {
		return nil, &os.PathError{Op: "open", Path: dir, Err: errors.New("not a folder")}
	}
	return disk.AcquireLock(filepath.Join(dir, lockName))
}

// holdLink is lockLink for as long as the store is open or has the filter.
func (s *Store) holdLink(dir string) error {
	lock, err := lockLink(dir)
	if lock == nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.links[dir] = lock
	return nil
}

// freeLink ends holdLink.
func (s *Store) freeLink(dir string) error {
	s.mu.Lock()
	lock := s.links[dir]
	delete(s.links, dir)
	s.mu.Unlock()
	if lock == nil {
		return nil
	}
	return lock.Release()
}

// removeFolder removes a folder of a filter that was dropped, or any file; of a link also what is
// behind it.
func removeFolder(fs disk.FS, label, path string) error {
	if !isLink(path) {
		return fs.RemoveAll(label, path)
	}
	target, err := filepath.EvalSymlinks(path)
	if err == nil {
		err = removeFiles(fs, label, target)
	} else if errors.Is(err, os.ErrNotExist) {
		err = nil // nothing is behind it, or not any more
	}
	return errors.Join(err, fs.Remove(label, path))
}

// removeFiles removes what is a filter's in a folder, and the folder if it has nothing else and may
// be removed.
func removeFiles(fs disk.FS, label, dir string) error {
	patterns := []string{"journal-*", "spare-*", "*.tmp", stateName, lockName, specName}
	for _, of := range kinds.All() {
		patterns = append(patterns, of.File)
	}
	var errs []error
	for _, pattern := range patterns {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		errs = append(errs, err)
		for _, name := range names {
			errs = append(errs, fs.RemoveAll(label, name))
		}
	}
	_ = os.Remove(dir)
	return errors.Join(errs...)
}
