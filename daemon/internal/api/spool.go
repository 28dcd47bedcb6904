package api

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
)

const (
	spoolMemory = 1 << 20  // bytes of an answer that wait in memory
	spoolPiece  = 64 << 10 // bytes sent at a time
	spoolFile   = "urifilter-answer-"

	// spoolSpares is what spools leave free of a file system at least, unless a tenth of it
	// is less: the journal may be there too.
	spoolSpares = 4 << 30
)

// spoolRoom tells whether a file system has room for answers that wait. Where nobody knows
// it has.
func spoolRoom(free, size uint64, known bool) bool {
	return !known || free > min(size/10, spoolSpares)
}

// TidySpool removes from dir what a process left there that ended between making a file and
// taking its name away, or that could not take it away.
func TidySpool(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, spoolFile+"*"))
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

// spool is the queue between a stream that is judged and a client that reads its
// answer later, perhaps only when it has sent everything: memory first, then a file
// that has no name, until the client has caught up. One goroutine writes, one drains.
type spool struct {
	dir    string
	budget *budget // for the file
	// pace sets the time that the client has for the next piece, or takes it away.
	// It is called with mu held, so that its calls come in the order of their causes.
	pace func(urgent bool)

	mu      sync.Mutex
	changed sync.Cond // on mu: something was queued, taken, ended or failed
	mem     []byte    // queued before what is in the file
	head    int       // of mem, taken
	file    *os.File  // nil: never needed
	from    int64     // of the file, taken
	to      int64     // of the file, written
	urgent  bool      // the client must read now
	ended   bool
	err     error
}

// errClientGone: the client cannot be sent to, or did not read in time.
var errClientGone = errors.New("client does not take the answer")

func newSpool(dir string, b *budget, pace func(urgent bool)) *spool {
	sp := &spool{dir: dir, budget: b, pace: pace}
	sp.changed.L = &sp.mu
	return sp
}

// len is the number of bytes that wait.
func (sp *spool) len() int64 {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return int64(len(sp.mem)-sp.head) + sp.to - sp.from
}

// tryWrite queues p, or says that there is no room for it now. Its error is what
// ended the draining, or the file's.
func (sp *spool) tryWrite(p []byte) (bool, error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.put(p), sp.err
}

// write is tryWrite, but waits for room, and the client must read meanwhile.
func (sp *spool) write(p []byte) error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.setUrgent(true)
	for !sp.put(p) {
		sp.changed.Wait()
	}
	sp.setUrgent(false)
	return sp.err
}

func (sp *spool) setUrgent(urgent bool) {
	sp.urgent = urgent
	sp.pace(urgent)
}

// put queues p where there is room. Once failed, it takes everything to nowhere.
func (sp *spool) put(p []byte) bool {
	switch {
	case sp.err != nil || len(p) == 0:
		return true
	case sp.to == sp.from && (sp.head == len(sp.mem) || len(sp.mem)-sp.head+len(p) <= spoolMemory):
		if sp.head > 0 {
			sp.mem = sp.mem[:copy(sp.mem, sp.mem[sp.head:])]
			sp.head = 0
		}
		sp.mem = append(sp.mem, p...)
	case !sp.budget.take(int64(len(p))):
		return false
	default:
		sp.putFile(p)
	}
	sp.changed.Broadcast()
	return true
}

func (sp *spool) putFile(p []byte) {
	if sp.file == nil {
		if sp.file, sp.err = os.CreateTemp(sp.dir, spoolFile+"*"); sp.err != nil {
			sp.budget.give(int64(len(p)))
			return
		}
		_ = os.Remove(sp.file.Name()) // where an open file cannot be removed, free does it
	}
	_, sp.err = sp.file.WriteAt(p, sp.to)
	sp.to += int64(len(p))
}

// end says that nothing more will be written, and that the client must read now.
func (sp *spool) end() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.ended = true
	sp.setUrgent(true)
	sp.changed.Broadcast()
}

// fail makes draining and writing end with err, unless they have an error already.
func (sp *spool) fail(err error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if sp.err == nil {
		sp.err = err
	}
	sp.changed.Broadcast()
}

func (sp *spool) failed() error {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	return sp.err
}

// drain sends what is queued to w until the spool has ended or failed, and flushes
// when nothing waits. It returns the bytes sent.
func (sp *spool) drain(w io.Writer, flush func() error) (sent int64) {
	piece := make([]byte, spoolPiece)
	for {
		n, err := sp.take(piece)
		if err != nil {
			return sent
		}
		n, err = w.Write(piece[:n])
		sent += int64(n)
		if err == nil && sp.len() == 0 {
			err = flush()
		}
		if err != nil {
			sp.fail(fmt.Errorf("%w: %w", errClientGone, err))
		}
	}
}

// take fills piece with what was queued first, waiting for something; its error is
// io.EOF at the end.
func (sp *spool) take(piece []byte) (n int, err error) {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	for {
		switch {
		case sp.err != nil:
			return 0, sp.err
		case sp.head < len(sp.mem):
			n = copy(piece, sp.mem[sp.head:])
			sp.head += n
		case sp.from < sp.to:
			if n, err = sp.takeFile(piece); err != nil {
				sp.err = err
				return 0, err
			}
		case sp.ended:
			return 0, io.EOF
		default:
			sp.changed.Wait()
			continue
		}
		if sp.urgent {
			sp.pace(true)
		}
		sp.changed.Broadcast()
		return n, nil
	}
}

// takeFile reads on in the file, and empties it when all of it is taken.
func (sp *spool) takeFile(piece []byte) (int, error) {
	n, err := sp.file.ReadAt(piece[:min(int64(len(piece)), sp.to-sp.from)], sp.from)
	if err != nil {
		return 0, err
	}
	sp.from += int64(n)
	if sp.from == sp.to {
		sp.budget.give(sp.to)
		sp.from, sp.to = 0, 0
		err = sp.file.Truncate(0)
	}
	return n, err
}

// free gives up what the spool holds. Nobody may write or drain any more.
func (sp *spool) free() {
	if sp.file == nil {
		return
	}
	sp.budget.give(sp.to)
	sp.to = 0
	_ = sp.file.Close() // its content is of no use any more
	_ = os.Remove(sp.file.Name())
}
