package spool

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
)

const (
	inMemory = 1 << 20  // bytes of an answer that wait in memory
	pieceLen = 64 << 10 // bytes sent at a time
)

// Queue is one answer, between its writer and a client that reads it later: first in memory,
// then in an unnamed file, until the client has caught up. One goroutine writes, one drains.
type Queue struct {
	folder *Folder
	holder budget.Holder
	// pace sets or removes the deadline of the client for the next piece. It is called
	// with mu held, so that its calls come in the order of their causes.
	pace func(urgent bool)

	mu      sync.Mutex
	changed sync.Cond // on mu: something was queued, taken, ended or failed
	mem     []byte    // queued before the data in the file
	head    int       // of mem, taken
	file    *os.File  // nil: never needed
	from    int64     // of the file, taken
	to      int64     // of the file, written
	urgent  bool      // the client must read now
	ended   bool
	err     error
}

// ErrClientGone: the client is unreachable, or did not read in time.
var ErrClientGone = errors.New("client does not take the answer")

// NewQueue makes the queue of an answer to a holder; Free must follow. pace sets or removes the deadline of
// the client for the next piece. Its calls come in the order of their causes, and it must not
// call the queue.
func (f *Folder) NewQueue(h budget.Holder, pace func(urgent bool)) *Queue {
	q := &Queue{folder: f, holder: h, pace: pace}
	q.changed.L = &q.mu
	return q
}

// Len is the number of waiting bytes.
func (q *Queue) Len() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return int64(len(q.mem)-q.head) + q.to - q.from
}

// TryWrite queues p, or reports that there is no room for it now. Its error is the one that
// ended draining, or that of the file.
func (q *Queue) TryWrite(p []byte) (bool, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.enqueue(p), q.err
}

// Write is TryWrite, but waits for room; meanwhile the client must read.
func (q *Queue) Write(p []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.setUrgent(true)
	for !q.enqueue(p) {
		q.changed.Wait()
	}
	q.setUrgent(false)
	return q.err
}

func (q *Queue) setUrgent(urgent bool) {
	q.urgent = urgent
	q.pace(urgent)
}

// enqueue queues p where there is room. After a failure, it discards everything.
func (q *Queue) enqueue(p []byte) bool {
	switch {
	case q.err != nil || len(p) == 0:
		return true
	case q.to == q.from && (q.head == len(q.mem) || len(q.mem)-q.head+len(p) <= inMemory):
		if q.head > 0 {
			q.mem = q.mem[:copy(q.mem, q.mem[q.head:])]
			q.head = 0
		}
		q.mem = append(q.mem, p...)
	case !q.folder.reserve(q.holder, int64(len(p)), q.to):
		return false
	default:
		q.putFile(p)
	}
	q.changed.Broadcast()
	return true
}

func (q *Queue) putFile(p []byte) {
	if q.file == nil {
		if q.file, q.err = os.CreateTemp(q.folder.dir, fileName+"*"); q.err != nil {
			q.folder.bytes.Give(q.holder, int64(len(p)))
			return
		}
		_ = os.Remove(q.file.Name()) // if an open file cannot be removed, Free removes it
	}
	_, q.err = q.file.WriteAt(p, q.to)
	q.to += int64(len(p))
}

// End says that no more data will be written, and that the client must read now.
func (q *Queue) End() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.ended = true
	q.setUrgent(true)
	q.changed.Broadcast()
}

// Fail ends draining and writing with err, unless they already have an error.
func (q *Queue) Fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.err == nil {
		q.err = err
	}
	q.changed.Broadcast()
}

// Err returns the error that ended the queue early; nil: none so far.
func (q *Queue) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err
}

// Drain sends the queued data to w until the queue has ended or failed, and flushes when
// nothing waits. It returns the number of bytes sent.
func (q *Queue) Drain(w io.Writer, flush func() error) (sent int64) {
	piece := make([]byte, pieceLen)
	for {
		n, err := q.dequeue(piece)
		if err != nil {
			return sent
		}
		n, err = w.Write(piece[:n])
		sent += int64(n)
		if err == nil && q.Len() == 0 {
			err = flush()
		}
		if err != nil {
			q.Fail(fmt.Errorf("%w: %w", ErrClientGone, err))
		}
	}
}

// dequeue fills piece with the oldest queued data, waiting for some; its error is io.EOF at
// the end.
func (q *Queue) dequeue(piece []byte) (n int, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for {
		switch {
		case q.err != nil:
			return 0, q.err
		case q.head < len(q.mem):
			n = copy(piece, q.mem[q.head:])
			q.head += n
		case q.from < q.to:
			if n, err = q.takeFile(piece); err != nil {
				q.err = err
				return 0, err
			}
		case q.ended:
			return 0, io.EOF
		default:
			q.changed.Wait()
			continue
		}
		if q.urgent {
			q.pace(true)
		}
		q.changed.Broadcast()
		return n, nil
	}
}

// takeFile reads on in the file, and empties it when all of it has been read.
func (q *Queue) takeFile(piece []byte) (int, error) {
	n, err := q.file.ReadAt(piece[:min(int64(len(piece)), q.to-q.from)], q.from)
	if err != nil {
		return 0, err
	}
	q.from += int64(n)
	if q.from == q.to {
		q.folder.bytes.Give(q.holder, q.to)
		q.from, q.to = 0, 0
		err = q.file.Truncate(0)
	}
	return n, err
}

// Free releases what the queue holds. There must be no further writing or draining.
func (q *Queue) Free() {
	if q.file == nil {
		return
	}
	q.folder.bytes.Give(q.holder, q.to)
	q.to = 0
	_ = q.file.Close() // its content is no longer needed
	_ = os.Remove(q.file.Name())
}
