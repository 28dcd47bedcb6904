package disk

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// FS performs file operations. The zero value is the real file system.
type FS struct {
	// Hook, if set, is called before every operation and returns the fault to inject.
	Hook func(label, path string) Fault
	// Record, if set, performs every operation by calling run, and may inspect it.
	Record func(op Op, run func() (done bool, err error)) error
}

// Fault says how a test makes one operation fail; the zero Fault leaves it alone.
type Fault struct {
	Before error // fail without doing it
	After  error // do it, then fail: it persisted, but nobody knows
}

// Op is one operation of an FS, for FS.Record.
type Op struct {
	Kind  OpKind
	Label string
	Path  string // what it works on; for a rename, the new path
	From  string // OpRename: the old path
	File  *File  // OpOpen, OpWrite, OpTruncate, OpSync: the open file, whatever its name is by now
	Flag  int    // OpOpen: as for os.OpenFile
	Data  []byte // OpWrite: valid until the operation returns
	Off   int64  // OpWrite: where; OpTruncate: the new size
}

// OpKind is what an Op does.
type OpKind int

// The operations.
const (
	OpOpen OpKind = iota
	OpWrite
	OpTruncate
	OpSync // of a file
	OpRename
	OpRemove
	OpRemoveAll
	OpMkdir
	OpSyncDir
)

// do runs work as one operation.
func (fs FS) do(op Op, work func() error) error {
	if fs.Hook == nil && fs.Record == nil {
		return work()
	}
	run := func() (done bool, err error) {
		var fault Fault
		if fs.Hook != nil {
			fault = fs.Hook(op.Label, op.Path)
		}
		if fault.Before != nil {
			return false, &os.PathError{Op: op.Label, Path: op.Path, Err: fault.Before}
		}
		if err := work(); err != nil {
			return false, err
		}
		if fault.After != nil {
			return true, &os.PathError{Op: op.Label, Path: op.Path, Err: fault.After}
		}
		return true, nil
	}
	if fs.Record != nil {
		return fs.Record(op, run)
	}
	_, err := run()
	return err
}

// IsNoSpace tells whether err means that a file could not grow: disk full, quota, or
// a limit on the size of files.
func IsNoSpace(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, errQuota) || errors.Is(err, syscall.EFBIG)
}

// IsShortage tells whether err means that the process or the machine has no descriptor
// or no memory left at present: the operation has not been done, and may be tried again.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

// File is an open file of an FS.
type File struct {
	fs FS
	f  *os.File
}

// OpenFile opens or creates a file as os.OpenFile does.
func (fs FS) OpenFile(label, path string, flag int) (*File, error) {
	file := &File{fs: fs}
	err := fs.do(Op{Kind: OpOpen, Label: label, Path: path, File: file, Flag: flag}, func() (err error) {
		file.f, err = openReserved(func() (*os.File, error) { return os.OpenFile(path, flag, 0o600) })
		return err
	})
	if err != nil {
		if file.f != nil { // failed, but persisted
			err = errors.Join(err, file.f.Close())
		}
		return nil, err
	}
	return file, nil
}

// Name is the path by which the file was opened.
func (f *File) Name() string { return f.f.Name() }

// WriteAt writes all of b at off.
func (f *File) WriteAt(label string, b []byte, off int64) error {
	return f.fs.do(Op{Kind: OpWrite, Label: label, Path: f.f.Name(), File: f, Data: b, Off: off}, func() error {
		_, err := f.f.WriteAt(b, off)
		return err
	})
}

// Writer returns a writer that fills the file from its beginning.
func (f *File) Writer(label string) io.Writer { return io.NewOffsetWriter(labelled{f, label}, 0) }

type labelled struct {
	f     *File
	label string
}

func (l labelled) WriteAt(b []byte, off int64) (int, error) {
	if err := l.f.WriteAt(l.label, b, off); err != nil {
		return 0, err
	}
	return len(b), nil
}

// ReadAt is os.File.ReadAt.
func (f *File) ReadAt(b []byte, off int64) (int, error) { return f.f.ReadAt(b, off) }

// Truncate sets the size; new bytes read as zeroes and take no space yet.
func (f *File) Truncate(label string, size int64) error {
	return f.fs.do(Op{Kind: OpTruncate, Label: label, Path: f.f.Name(), File: f, Off: size}, func() error { return f.f.Truncate(size) })
}

// Sync makes data and size durable. After an error it must not be tried again: the
// system may have dropped the pages that it could not write.
func (f *File) Sync(label string) error {
	return f.fs.do(Op{Kind: OpSync, Label: label, Path: f.f.Name(), File: f}, func() error { return datasync(f.f) })
}

// BeginSync asks the system to begin writing n bytes from off on, so that a later Sync has less
// to do. It does not wait and promises nothing: what it cannot do is left to Sync, which
// reports what could not be written.
func (f *File) BeginSync(off, n int64) { beginSync(f.f, off, n) }

// Close closes the file.
func (f *File) Close() error {
	err := f.f.Close()
	refill()
	return err
}

// Rename renames, replacing what is at the new path. SyncDir makes it durable.
func (fs FS) Rename(label, from, to string) error {
	return fs.do(Op{Kind: OpRename, Label: label, Path: to, From: from}, func() error { return os.Rename(from, to) })
}

// Remove removes a file.
func (fs FS) Remove(label, path string) error {
	return fs.do(Op{Kind: OpRemove, Label: label, Path: path}, func() error { return os.Remove(path) })
}

// RemoveAll removes a folder and all in it; a missing folder is not an error.
func (fs FS) RemoveAll(label, path string) error {
	return fs.do(Op{Kind: OpRemoveAll, Label: label, Path: path}, func() error {
		_, err := openReserved(func() (*os.File, error) { return nil, os.RemoveAll(path) })
		return err
	})
}

// Mkdir makes a folder. SyncDir of its parent makes it durable.
func (fs FS) Mkdir(label, path string) error {
	return fs.do(Op{Kind: OpMkdir, Label: label, Path: path}, func() error { return os.Mkdir(path, 0o700) })
}

// MkdirAll makes a folder and its missing parents, all durable on return. A folder that
// exists is made durable too, because the process that made it may not have done so yet.
func (fs FS) MkdirAll(label, path string) error {
	parent := filepath.Dir(path)
	if st, err := os.Stat(path); err == nil {
		if !st.IsDir() {
			return &os.PathError{Op: label, Path: path, Err: syscall.ENOTDIR}
		}
		err := fs.SyncDir(label+"-syncdir", parent)
		if errors.Is(err, os.ErrPermission) { // the parent belongs to somebody else, who made the folder for us
			err = nil
		}
		return err
	}
	if parent != path {
		if err := fs.MkdirAll(label, parent); err != nil {
			return err
		}
	}
	if err := fs.Mkdir(label, path); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return fs.SyncDir(label+"-syncdir", parent)
}

// Dir is an open directory, whose names can be made durable even if no descriptor is left.
type Dir struct {
	fs   FS
	path string
	d    *os.File // nil where the system has no such call
}

// OpenDir opens a directory for Sync.
func (fs FS) OpenDir(path string) (*Dir, error) {
	d, err := openReserved(func() (*os.File, error) { return openDir(path) })
	if err != nil {
		return nil, err
	}
	return &Dir{fs, path, d}, nil
}

// Sync makes the names in the directory durable.
func (d *Dir) Sync(label string) error {
	return d.fs.do(Op{Kind: OpSyncDir, Label: label, Path: d.path}, func() error {
		if d.d == nil {
			return nil
		}
		return d.d.Sync()
	})
}

// Close closes the directory.
func (d *Dir) Close() error {
	if d.d == nil {
		return nil
	}
	err := d.d.Close()
	refill()
	return err
}

// SyncDir makes the names in a directory durable.
func (fs FS) SyncDir(label, path string) error {
	d, err := fs.OpenDir(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(label), d.Close())
}

// WriteFile replaces path by what fill writes, in one step: after a crash path has the
// old content or the new, never a part. Labels are label-create, label-write
// (fill's own), label-sync, label-rename and label-syncdir. On an error the old
// content remains, unless the error comes from label-syncdir: then path has either. What is there
// and is no regular file, such as a device or a pipe, is refused: it would be gone for all.
func (fs FS) WriteFile(label, path string, fill func(*File) error) (err error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return &os.PathError{Op: "replace", Path: path, Err: errors.New("this is no regular file")}
	}
	tmp := path + ".tmp"
	f, err := fs.OpenFile(label+"-create", tmp, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close() // a second Close is harmless
			_ = fs.Remove(label+"-remove", tmp)
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

// A few descriptors are kept in reserve, so that files can be opened even if connections
// have taken all others. One is given up for a file that could not be opened otherwise,
// and replaced when a file is closed.
const reserved = 16

var reserve struct {
	sync.Mutex
	kept   []*os.File
	wanted int // 0 until KeepReserve
}

// KeepReserve fills the reserve; it is for a process that serves connections. Descriptors
// that are not available now are added later.
func KeepReserve() {
	reserve.Lock()
	reserve.wanted = reserved
	reserve.Unlock()
	refill()
}

// refill opens the descriptors that the reserve lacks.
func refill() {
	reserve.Lock()
	defer reserve.Unlock()
	for len(reserve.kept) < reserve.wanted {
		f, err := os.Open(os.DevNull)
		if err != nil {
			return
		}
		reserve.kept = append(reserve.kept, f)
	}
}

// openReserved calls open, and gives up a descriptor of the reserve if there is no other.
// Somebody else may be quicker to take that one; then the next is given up.
func openReserved(open func() (*os.File, error)) (*os.File, error) {
	for {
		f, err := open()
		if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) || !giveUpOne() {
			return f, err
		}
	}
}

func giveUpOne() bool {
	reserve.Lock()
	defer reserve.Unlock()
	n := len(reserve.kept)
	if n == 0 {
		return false
	}
	_ = reserve.kept[n-1].Close()
	reserve.kept = reserve.kept[:n-1]
	return true
}
