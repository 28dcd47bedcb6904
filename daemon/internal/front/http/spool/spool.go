// Package spool keeps answers that their clients do not read yet, perhaps not until they have
// sent everything: first in memory, then in unnamed files. All files together are bounded, and
// leave disk space for others.
//
// It knows neither requests nor connections: the writer and the sender of an answer share a
// [Queue].
package spool

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/program/diskspace"
)

const (
	fileName = "urifilter-answer-" // and a number

	// spared is the space that spools leave free on a file system, unless a tenth of it is
	// less: the journal may be there, too.
	spared = 4 << 30
)

// Folder holds the files, and bounds their total size. It is safe for concurrent use.
type Folder struct {
	dir   string
	bytes *budget.Shared
	space func(dir string) (free, size uint64, known bool) // of its file system
}

// NewFolder makes the Folder of dir, which must exist when the first file is needed. All its
// files together have at most limit bytes, shared out between their holders, and leave the last tenth of the file system free,
// or 4 GiB if that is less.
func NewFolder(dir string, limit int64) *Folder {
	return &Folder{dir: dir, bytes: budget.NewShared(limit), space: diskspace.Of}
}

// Used returns how many bytes its files have.
func (f *Folder) Used() int64 { return f.bytes.Used() }

// reserve reserves n bytes of a file that has own, if there is room for them and the holder's share
// is not used up.
func (f *Folder) reserve(h budget.Holder, n, own int64) bool {
	return hasRoom(f.space(f.dir)) && f.bytes.Take(h, n, own)
}

// hasRoom reports whether a file system has room for waiting answers. If its free space is
// unknown, it has.
func hasRoom(free, size uint64, known bool) bool {
	return !known || free > min(size/10, spared)
}

// Tidy removes from dir the files of processes that ended between creating a file and removing
// its name, or that could not remove it.
func Tidy(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, fileName+"*"))
	if err != nil {
		return err
	}
	var errs []error
	for _, file := range left {
		if err := os.Remove(file); !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
