// Package warc writes fetched pages as WARC 1.1 (ISO 28500:2017), the format of web archives: files of
// records, each a separate gzip member, so that readers find one by its offset. It appends, and can be
// cut back to what its caller has committed. Verify reads the files back; nothing looks for duplicates.
package warc

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Position is a place in the files: the first byte after a record. The zero value is the beginning.
type Position struct {
	File   int   `json:"file"`   // its number, from 0
	Offset int64 `json:"offset"` // bytes from its beginning
}

// Options are those of a Writer. Zero values mean the defaults.
type Options struct {
	Prefix string      // of the file names, PREFIX-00000.warc.gz; "": crawl
	Size   int64       // size after which the next record goes to a new file; 0: 1 GiB
	Info   [][2]string // what each file says about its making, as {"software", "..."}, {"operator", "..."}
	FS     disk.FS
	Now    func() time.Time
}

func (o Options) complete() Options {
	o.Prefix, o.Size = cmp.Or(o.Prefix, "crawl"), cmp.Or(o.Size, 1<<30)
	if o.Now == nil {
		o.Now = time.Now
	}
	return o
}

// Writer appends records to the files of one folder. Its methods may be called by several goroutines.
type Writer struct {
	dir string
	o   Options

	mu     sync.Mutex // guards the fields below
	file   *disk.File
	at     Position
	names  bool  // the name of file may not be durable
	failed error // set after an error: nothing more is written
}

// Open opens the files in dir for appending at a position that Sync has returned, and makes dir if it
// is missing. It cuts off what follows the position: records of uncommitted pages, and incomplete
// records. Files that end before the position are an error: they have lost committed records.
func Open(dir string, at Position, o Options) (*Writer, error) {
	o = o.complete()
	w := &Writer{dir: dir, o: o, at: at}
	if err := o.FS.MkdirAll("warc-mkdir", dir); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	if err := w.removeAfter(); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	if at == (Position{}) {
		return w, nil
	}
	if err := w.openAt(); err != nil {
		return nil, fmt.Errorf("warc: %w", err)
	}
	return w, nil
}

// name is the path of a file.
func (w *Writer) name(number int) string {
	return filepath.Join(w.dir, fmt.Sprintf("%s-%05d.warc.gz", w.o.Prefix, number))
}

// removeAfter removes the files that begin after the position.
func (w *Writer) removeAfter() error {
	ours := regexp.MustCompile("^" + regexp.QuoteMeta(w.o.Prefix) + `-([0-9]{5,9})\.warc\.gz$`)
	files, err := os.ReadDir(w.dir)
	if err != nil {
		return err
	}
	removed := false
	for _, f := range files {
		part := ours.FindStringSubmatch(f.Name())
		if part == nil {
			continue
		}
		number, err := strconv.Atoi(part[1])
		if err != nil || number < w.at.File || number == w.at.File && w.at.Offset > 0 {
			continue
		}
		if err := w.o.FS.Remove("warc-remove", filepath.Join(w.dir, f.Name())); err != nil {
			return err
		}
		removed = true
	}
	if !removed {
		return nil
	}
	return w.o.FS.SyncDir("warc-syncdir", w.dir)
}

func (w *Writer) openAt() error {
	if w.at.Offset == 0 { // between two files
		return nil
	}
	f, err := w.o.FS.OpenFile("warc-open", w.name(w.at.File), os.O_RDWR)
	if err != nil {
		return err
	}
	size, err := f.Size()
	if err == nil && size < w.at.Offset {
		err = fmt.Errorf("%s has %d bytes, and %d were committed\nhint: it was cut or replaced; begin a new crawl in another folder", f.Name(), size, w.at.Offset)
	}
	if err == nil && size > w.at.Offset {
		if err = f.Truncate("warc-truncate", w.at.Offset); err == nil {
			err = f.Sync("warc-sync")
		}
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file = f
	return nil
}

// Append appends the records of an exchange, in one piece. They are durable after Sync. A caller
// that commits pages must append them in the order of commits, so that a crash cuts off only
// uncommitted ones. After an error all calls fail.
func (w *Writer) Append(e Encoded) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return w.failed
	}
	if err := w.append(e); err != nil {
		w.failed = fmt.Errorf("warc: %w", err)
	}
	return w.failed
}

func (w *Writer) append(e Encoded) error {
	if w.file != nil && w.at.Offset >= w.o.Size {
		if err := w.finish(); err != nil {
			return err
		}
	}
	if w.file == nil {
		if err := w.begin(); err != nil {
			return err
		}
	}
	err := w.file.WriteAt("warc-write", e, w.at.Offset)
	if err == nil {
		w.at.Offset += int64(len(e))
	}
	return err
}

// begin starts a file with its warcinfo.
func (w *Writer) begin() error {
	path := w.name(w.at.File)
	f, err := w.o.FS.OpenFile("warc-create", path, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
	if err != nil {
		return err
	}
	info, err := encodeInfo(filepath.Base(path), w.o.Info, w.o.Now())
	if err == nil {
		err = f.WriteAt("warc-write", info, 0)
	}
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file, w.names, w.at.Offset = f, true, int64(len(info))
	return nil
}

// finish makes a full file durable, and moves to the next number.
func (w *Writer) finish() error {
	if err := w.sync(); err != nil {
		return err
	}
	err := w.file.Close()
	w.file, w.at = nil, Position{File: w.at.File + 1}
	return err
}

// Sync makes all appended records durable, and returns the position after them, for the caller
// to commit. A Writer that is opened there continues as if nothing had happened.
func (w *Writer) Sync() (Position, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed != nil {
		return Position{}, w.failed
	}
	if err := w.sync(); err != nil {
		w.failed = fmt.Errorf("warc: %w", err)
		return Position{}, w.failed
	}
	return w.at, nil
}

func (w *Writer) sync() error {
	if w.file == nil {
		return nil
	}
	if err := w.file.Sync("warc-sync"); err != nil {
		return err
	}
	if w.names {
		if err := w.o.FS.SyncDir("warc-syncdir", w.dir); err != nil {
			return err
		}
		w.names = false
	}
	return nil
}

// Close closes the file without a sync.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failed == nil {
		w.failed = fmt.Errorf("warc: %w", os.ErrClosed)
	}
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}
