package embedded

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// crash copies a data directory as a kill would leave it.
func crash(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := copyFolder(to, dir); err != nil {
		t.Fatal(err)
	}
	return to
}

// copyFolder copies a data directory while a journal in it may be written. It copies each file from
// its end to its beginning: if the copy has something of a later record, it also has all earlier
// records, as on a disk with a sync after each record.
func copyFolder(to, from string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		if entry.IsDir() {
			return os.Mkdir(filepath.Join(to, name), 0o700)
		}
		return copyFile(filepath.Join(to, name), path)
	})
}

func copyFile(to, from string) (err error) {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	info, err := source.Stat()
	if err != nil {
		return err
	}
	target, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, target.Close()) }()
	if err := target.Truncate(info.Size()); err != nil {
		return err
	}
	const piece = 64 << 10
	buf := make([]byte, piece)
	for at := (info.Size() - 1) / piece * piece; at >= 0; at -= piece {
		n, err := source.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if _, err := target.WriteAt(buf[:n], at); err != nil {
			return err
		}
	}
	return nil
}
