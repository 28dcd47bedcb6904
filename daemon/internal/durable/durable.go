// Package durable does the file operations that must survive a crash: temporary file,
// sync, rename, sync of the directory. Each operation carries a label, so that a test
// can make exactly that one fail; it does not decide what a failure means.
package durable

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// FS performs file operations. The zero value is the real file system.
type FS struct {
	// Hook, when set, is asked before every operation what is to go wrong with it.
	Hook func(label, path string) Fault
}

// Fault is what a test wants of one operation; the zero Fault lets it be.
type Fault struct {
	Before error // fail without doing it
	After  error // do it, then fail: it persisted, but nobody knows
}

func (fs FS) do(label, path string, op func() error) error {
	if fs.Hook == nil {
		return op()
	}
	fault := fs.Hook(label, path)
	if fault.Before != nil {
		return &os.PathError{Op: label, Path: path, Err: fault.Before}
	}
	if err := op(); err != nil {
		return err
	}
	if fault.After != nil {
		return &os.PathError{Op: label, Path: path, Err: fault.After}
	}
	return nil
}

// IsNoSpace tells whether err means that a file could not grow: disk full, quota, or
// a limit on the size of files.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || errors.Is(err, syscall.EFBIG)
}

// File is an open file of an FS.
type File struct {
	fs FS
	f  *os.File
}

// OpenFile opens or creates a file as os.OpenFile does.
func (fs FS) OpenFile(label, path string, flag int) (*File, error) {
	var f *os.File
	err := fs.do(label, path, func() (err error) {
		f, err = os.OpenFile(path, flag, 0o600)
		return err
	})
	if err != nil {
		if f != nil { // failed, but persisted
			err = errors.Join(err, f.Close())
		}
		return nil, err
	}
	return &File{fs, f}, nil
}

// Name is the path by which the file was opened.
func (f *File) Name() string { return f.f.Name() }

// WriteAt writes all of b at off.
func (f *File) WriteAt(label string, b []byte, off int64) error {
	return f.fs.do(label, f.f.Name(), func() error {
		_, err := f.f.WriteAt(b, off)
		return err
	})
}

// ReadAt is os.File.ReadAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

// Truncate sets the size; what is new reads as zeroes and takes no space yet.
func (f *File) Truncate(label string, size int64) error {
	return f.fs.do(label, f.f.Name(), func() error { return f.f.Truncate(size) })
}

// Sync makes data and size durable. After an error it must not be tried again: the
// system may have dropped the pages that it could not write.
func (f *File) Sync(label string) error {
	return f.fs.do(label, f.f.Name(), func() error { return datasync(f.f) })
}

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// Rename renames, replacing what is at the new path. SyncDir makes it durable.
func (fs FS) Rename(label, from, to string) error {
	return fs.do(label, to, func() error { return os.Rename(from, to) })
}

// Remove removes a file.
func (fs FS) Remove(label, path string) error {
	return fs.do(label, path, func() error { return os.Remove(path) })
}

// SyncDir makes the names in a directory durable.
func (fs FS) SyncDir(label, dir string) error {
	return fs.do(label, dir, func() error { return syncDir(dir) })
}

// WriteFile replaces path by what fill writes, in one step: after a crash the old
// content or the new is there, never a part. Labels are label-create, label-write
// (fill's own), label-sync, label-rename and label-syncdir. On an error the old
// content still stands, unless the error came of label-syncdir: then either does.
func (fs FS) WriteFile(label, path string, fill func(*File) error) (err error) {
	tmp := path + ".tmp"
	f, err := fs.OpenFile(label+"-create", tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // a second Close is harmless
			_ = os.Remove(tmp)
		}
	}()
	if err := fill(f); err != nil {
		return err
	}
	// Without this a rename could become durable before the data.
	if err := f.Sync(label + "-sync"); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := fs.Rename(label+"-rename", tmp, path); err != nil {
		return err
	}
	return fs.SyncDir(label+"-syncdir", filepath.Dir(path))
}

// zeroes is what Zero writes; it is never changed.
var zeroes [1 << 20]byte

// Zero fills the file with zeroes up to size, so that later writes neither need space
// nor change the file's metadata (a sync of such a write takes about half the time).
func (f *File) Zero(label string, size int64) error {
	for off := int64(0); off < size; off += int64(len(zeroes)) {
		n := min(int64(len(zeroes)), size-off)
		if err := f.WriteAt(label, zeroes[:n], off); err != nil {
			return err
		}
	}
	return nil
}

// Size is the file's length in bytes.
func (f *File) Size() (int64, error) {
	st, err := f.f.Stat()
	if err != nil {
		return 0, err
	}
	return st.Size(), nil
}

var _ io.ReaderAt = (*File)(nil)
