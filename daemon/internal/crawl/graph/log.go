package graph

import (
	"fmt"
	"os"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

// flushBytes is how much of the log is in memory at most.
const flushBytes = 256 << 10

// Log appends to the file of a graph. It is one goroutine's. After an error it only returns that
// error: what the disk has is then known to nobody before the log is opened anew.
type Log struct {
	f       *durable.File
	size    int64 // bytes that were written
	pending []byte
	err     error
}

// OpenLog opens the file at path, created if it is missing, and keeps its first keep bytes: what a
// crash has left behind them is cut off. A keep below 0 keeps all whole lines. The error names a file
// that is shorter than keep, or in which keep is not the end of a line.
func OpenLog(fs durable.FS, path string, keep int64) (*Log, error) {
	f, err := fs.OpenFile("graph", path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	l := &Log{f: f}
	if err := l.truncate(keep); err != nil {
		_ = f.Close()
		return nil, err
	}
	return l, nil
}

func (l *Log) truncate(keep int64) error {
	size, err := l.f.Size()
	if err != nil {
		return err
	}
	if keep > size {
		return fmt.Errorf("%s: has %d bytes, want %d: links that were kept are missing", l.f.Name(), size, keep)
	}
	end, err := l.lineEnd(size)
	if keep >= 0 {
		end, err = l.lineEnd(keep)
	}
	if err != nil {
		return err
	}
	if keep >= 0 && end != keep {
		return fmt.Errorf("%s: no line ends at byte %d: the file was changed by somebody else", l.f.Name(), keep)
	}
	if l.size = end; end == size {
		return nil
	}
	if err := l.f.Truncate("graph cut", end); err != nil {
		return err
	}
	return l.f.Sync("graph cut")
}

// lineEnd is the end of the last line that ends at before or earlier.
func (l *Log) lineEnd(before int64) (int64, error) {
	var block [4096]byte
	for before > 0 {
		b := block[:min(before, int64(len(block)))]
		if _, err := l.f.ReadAt(b, before-int64(len(b))); err != nil {
			return 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] == '\n' {
				return before - int64(len(b)-i-1), nil
			}
		}
		before -= int64(len(b))
	}
	return 0, nil
}

// Append adds edges. They are durable after the next Sync.
func (l *Log) Append(edges ...Edge) error {
	for _, e := range edges {
		if l.err != nil {
			return l.err
		}
		var err error
		if l.pending, err = AppendLine(l.pending, e); err != nil {
			return err
		}
		if len(l.pending) >= flushBytes {
			l.flush()
		}
	}
	return l.err
}

func (l *Log) flush() {
	if l.err != nil || len(l.pending) == 0 {
		return
	}
	if l.err = l.f.WriteAt("graph", l.pending, l.size); l.err == nil {
		l.size += int64(len(l.pending))
		l.pending = l.pending[:0]
	}
}

// Sync makes all that was appended durable, and returns the length of the file: what OpenLog is to
// keep. It does not make the name of a new file durable, which is for whoever made the folder.
func (l *Log) Sync() (int64, error) {
	if l.flush(); l.err == nil {
		l.err = l.f.Sync("graph")
	}
	return l.size, l.err
}

// Close closes the file. What was not synced may be lost.
func (l *Log) Close() error {
	l.flush()
	if err := l.f.Close(); l.err == nil {
		return err
	}
	return l.err
}
