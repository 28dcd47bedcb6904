// Package atomicfile replaces files of this machine in one step. Package host does that on hosts. It does not keep two
// writers from replacing each other's content: the last one wins, with all of its own.
package atomicfile

import (
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Unfinished ends the names of files that are being written, and of those that a writer has left which was killed.
const Unfinished = ".new"

// Write replaces a file, or makes it, with these permissions where the umask allows them. Readers see the old content or
// the new one, also when several processes write at once: each has an unfinished file of its own.
func Write(path string, content []byte, mode fs.FileMode) error {
	temp := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"-"+rand.Text()+Unfinished)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(temp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return nil
}
