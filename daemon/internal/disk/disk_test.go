package disk

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func fill(text string) func(*File) error {
	return func(f *File) error { return f.WriteAt("x-write", []byte(text), 0) }
}

// TestWriteFileWithFaults has each operation fail, before and after it took effect: the file is
// the old one or the new one, whole, and may be the new one only after the rename.
func TestWriteFileWithFaults(t *testing.T) {
	t.Parallel()
	var labels []string
	recording := FS{Record: func(op Op, run func() (bool, error)) error {
		labels = append(labels, op.Label)
		_, err := run()
		return err
	}}
	if err := recording.WriteFile("x", filepath.Join(t.TempDir(), "file"), fill("new")); err != nil {
		t.Fatal(err)
	}
	if want := []string{"x-create", "x-write", "x-sync", "x-rename", "x-syncdir"}; !slices.Equal(labels, want) {
		t.Fatalf("operations %q, want %q", labels, want)
	}
	fault := errors.New("as the test wants it")
	for _, done := range []bool{false, true} {
		for _, failing := range labels {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
				t.Fatal(err)
			}
			disk := FS{Hook: func(label, _ string) Fault {
				switch {
				case label != failing:
					return Fault{}
				case done:
					return Fault{After: fault}
				}
				return Fault{Before: fault}
			}}
			err := disk.WriteFile("x", path, fill("new"))
			var at *fs.PathError
			if !errors.Is(err, fault) || !errors.As(err, &at) || at.Op != failing {
				t.Errorf("%s, done %v: the error is %v", failing, done, err)
			}
			want := "old"
			if failing == "x-syncdir" || failing == "x-rename" && done {
				want = "new"
			}
			if got := read(t, path); got != want {
				t.Errorf("%s, done %v: the file has %q, want %q", failing, done, got, want)
			}
			files := 1
			if failing == "x-create" && done { // nobody knows that it exists; the next write reuses it
				files = 2
			}
			if left, err := os.ReadDir(dir); err != nil || len(left) != files {
				t.Errorf("%s, done %v: the folder has %v, %v", failing, done, left, err)
			}
		}
	}
}

func TestMkdirAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var synced []string
	disk := FS{Record: func(op Op, run func() (bool, error)) error {
		if op.Kind == OpSyncDir {
			synced = append(synced, op.Path)
		}
		_, err := run()
		return err
	}}
	path := filepath.Join(dir, "a", "b")
	if err := disk.MkdirAll("x", path); err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Dir(dir), dir, filepath.Join(dir, "a")}; !slices.Equal(synced, want) {
		t.Errorf("durable are the names in %q, want %q", synced, want)
	}
	synced = nil
	if err := disk.MkdirAll("x", path); err != nil || len(synced) != 1 { // the process that made it may not have synced it yet
		t.Errorf("the second time: %v, %q", err, synced)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := disk.MkdirAll("x", filepath.Join(file, "c")); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("below a file: %v", err)
	}
}

func TestZeroAndTruncate(t *testing.T) {
	t.Parallel()
	f, err := FS{}.OpenFile("x", filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	const size = 1<<20 + 7
	if err := errors.Join(f.WriteAt("x", []byte("text"), 0), f.Zero("x", size), f.Sync("x")); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != size || err != nil {
		t.Errorf("%d bytes, %v, want %d", n, err, size)
	}
	b := make([]byte, 8)
	if _, err := f.ReadAt(b, 0); err != nil || string(b) != "\x00\x00\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%q, %v, want zeroes", b, err)
	}
	if err := f.Truncate("x", 3); err != nil {
		t.Fatal(err)
	}
	if n, err := f.Size(); n != 3 || err != nil {
		t.Errorf("%d bytes, %v, want 3", n, err)
	}
}

// BeginSync changes nothing, whatever range it is given.
func TestBeginSync(t *testing.T) {
	var fs FS
	f, err := fs.OpenFile("create", filepath.Join(t.TempDir(), "file"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	if err := f.WriteAt("write", want, 0); err != nil {
		t.Fatal(err)
	}
	for _, r := range [][2]int64{{0, 1 << 20}, {4096, 8192}, {1 << 19, 0}, {1 << 30, 1 << 20}, {-1, -1}} {
		f.BeginSync(r[0], r[1])
	}
	if err := f.Sync("sync"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := f.ReadAt(got, 0); err != nil || !bytes.Equal(got, want) {
		t.Errorf("other bytes than were written, %v", err)
	}
	if size, err := f.Size(); err != nil || size != int64(len(want)) {
		t.Errorf("%d bytes, %v, want %d", size, err, len(want))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f.BeginSync(0, 4096)
}

func TestIsNoSpace(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]bool{syscall.ENOSPC: true, syscall.EFBIG: true, syscall.EIO: false, nil: false} {
		if got := IsNoSpace(&os.PathError{Op: "write", Path: "/x", Err: err}); got != want {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
}
