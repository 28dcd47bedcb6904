// Package spool keeps answers that their clients do not read yet, perhaps only when they have
// sent everything: in memory at first, then in files without a name. Its files are bounded all
// together, and leave the disk room for others.
//
// It knows neither requests nor connections: who writes an answer and who sends it on agree
// over a [Queue].
package spool

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/api/budget"
)

const (
	fileName = "urifilter-answer-" // and a number

	// spared is what spools leave free of a file system at least, unless a tenth of it is
	// less: the journal may be there too.
	spared = 4 << 30
)

// Folder is where the files are, and how large all of them may be. It is safe for concurrent
// use.
type Folder struct {
	dir   string
	bytes *budget.Budget
	space func(dir string) (free, size uint64, known bool) // of its file system
}

// NewFolder makes the Folder of dir, which must be there when the first file is needed. Its
// files have at most limit bytes, all together, and leave the last tenth of the file system free,
// or 4 GiB where that is less.
func NewFolder(dir string, limit int64) *Folder {
	return &Folder{dir: dir, bytes: budget.New(limit), space: diskSpace}
}

// Used is how many bytes its files have.
func (f *Folder) Used() int64 { return f.bytes.Used() }

// take reserves n bytes of a file, if there is room for them.
func (f *Folder) take(n int64) bool { return hasRoom(f.space(f.dir)) && f.bytes.Take(n) }

// hasRoom tells whether a file system has room for answers that wait. Where nobody knows it
// has.
func hasRoom(free, size uint64, known bool) bool {
	return !known || free > min(size/10, spared)
}

// Tidy removes from dir what a process left there that ended between making a file and taking
// its name away, or that could not take it away.
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
