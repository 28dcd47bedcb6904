// Package journal keeps the keys of items that were accepted but are not yet in a
// filter's file, and what goes with each key. Batches that arrive together share one
// write and one sync (group commit). It knows keys, not items or filters, and it never
// reads what it wrote except in Replay.
package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Sync says when an appended key is durable.
type Sync uint32

const (
	Always   Sync = 0 // Wait returns after a sync: survives loss of power
	Interval Sync = 1 // Wait returns after a write: survives kill -9; Flush syncs
	None     Sync = 2 // as Interval, and nobody syncs until Rotate or Close
)

var (
	// ErrDamaged is wrapped by errors that mean acknowledged keys may be gone.
	ErrDamaged = errors.New("damaged journal")
	// ErrForeign wraps ErrDamaged, for a segment of another filter.
	ErrForeign = fmt.Errorf("%w: it is another filter's", ErrDamaged)
	// ErrNoSpace is wrapped by Reserve's error when the disk is full.
	ErrNoSpace = errors.New("no space for the journal")
	// ErrShortage is wrapped by Reserve's error when descriptors or memory have run out.
	ErrShortage = errors.New("the journal cannot make a file at present")
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("journal is closed")
)

const (
	firstSegment = 1 << 20
	maxSegment   = 16 << 20
	// retrySpace is how long Reserve believes that a full disk is still full.
	retrySpace = time.Second
)

// Options say where a journal is and how it works.
type Options struct {
	Dir        string
	FS         disk.FS
	Sync       Sync
	Generation uint64
	Mark       uint64 // tells the filter from others; 0: it has none
	Next       uint64 // sequence number of the first segment to write: Replay's Next
	Found      int64  // bytes of segments that the filter's file does not cover: Replay's Bytes
	// Width is the number of slots of an entry: 1, or 0, where it is a key; more where
	// something goes with the key.
	Width int
	// Parts is the number of calls of Append in which the entries of one Reserve may come,
	// in addition to one call for every 256 of them.
	Parts int
	// FirstSegment is the size in bytes of the first segment, and the least of any; the
	// following ones grow. 0: 1 MiB.
	FirstSegment int64
	Log          *slog.Logger
	// Synced receives the duration of each sync that batches, or Flush, waited for; nil
	// discards it.
	Synced func(took time.Duration)
	// Failed is called once, when a write or sync has failed and the journal is dead.
	Failed func(error)
}

// Journal appends keys. It is safe for concurrent use.
type Journal struct {
	opt Options

	mu   sync.Mutex
	wake sync.Cond // leading, growing, written or err changed
	err  error     // sticky

	pending  []*block // slots not yet taken by a leader
	appended uint64   // slots ever appended
	written  uint64   // of those, durable as opt.Sync says
	dirty    bool     // written but not synced (Interval, None)

	free     int64 // slots left in cur and spares
	reserved int64 // of those, promised to batches under way
	spares   []*segment
	made     int       // spares, for their names
	dir      *disk.Dir // open before the first spare exists
	nextSize int64
	growing  bool      // somebody makes a spare
	fullAt   time.Time // when making one last failed
	fullErr  error
	aheadAt  time.Time // when making one ahead of need last failed
	refused  int       // keys of the largest batch refused since one as large was accepted

	leading bool // somebody owns the following
	cur     *segment
	seq     uint64 // of cur, or of the next one where cur is nil
	grown   int64  // bytes in segments since the last Rotate, with Options.Found; guarded by mu
}

// Open starts a journal that writes from segment opt.Next on.
// Files are made when the first key needs them.
func Open(opt Options) *Journal {
	opt.Width = max(1, opt.Width)
	if opt.FirstSegment == 0 {
		opt.FirstSegment = firstSegment
	}
	j := &Journal{opt: opt, seq: opt.Next, nextSize: opt.FirstSegment, grown: opt.Found}
	j.wake.L = &j.mu
	return j
}

// Append takes over the fresh keys. It must be called in the order in which keys
// became visible as seen, with room reserved; they are durable when Wait returns.
func (j *Journal) Append(keys []bloom.Hash, fresh []bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i, key := range keys {
		if fresh[i] {
			b := j.last()
			b.slots = appendKey(b.slots, key)
			j.appended++
		}
	}
}

// AppendEntries is Append for entries of Options.Width slots each.
func (j *Journal) AppendEntries(slots []bloom.Hash) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.appended += uint64(len(slots))
	for len(slots) > 0 {
		b := j.last()
		n := min(len(slots), b.room(j.opt.Width))
		for _, s := range slots[:n] {
			b.slots = appendKey(b.slots, s)
		}
		slots = slots[n:]
	}
}

// A block is a part of a group: a slot for a record's header, which only the first of a record needs, and then entries.
type block struct{ slots []byte }

const blockBytes = 64 << 10

// blocks are shared by all journals, so that one that was busy keeps no memory.
var blocks = sync.Pool{New: func() any { return &block{make([]byte, slot, blockBytes)} }}

// room returns how many slots of whole entries fit.
func (b *block) room(width int) int {
	n := (cap(b.slots) - len(b.slots)) / slot
	return n - n%width
}

// last returns the block for the next entry; the caller holds mu.
func (j *Journal) last() *block {
	if n := len(j.pending); n > 0 && j.pending[n-1].room(j.opt.Width) > 0 {
		return j.pending[n-1]
	}
	b := blocks.Get().(*block)
	j.pending = append(j.pending, b)
	return b
}

// Wait returns when every key appended so far is durable as Options.Sync says.
// An error means that this cannot be known, now or later.
func (j *Journal) Wait() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	goal := j.appended
	for j.written < goal {
		switch {
		case j.err != nil:
			return j.err
		case j.leading:
			j.wake.Wait()
		default:
			j.lead(func() error { return j.commit(j.opt.Sync == Always) })
		}
	}
	return nil
}

// lead runs work as the owner of the files, and releases mu while work runs.
// The caller holds mu and has seen that nobody leads. An error of work is sticky.
func (j *Journal) lead(work func() error) {
	j.leading = true
	j.mu.Unlock()
	err := work()
	j.mu.Lock()
	j.leading = false
	if err != nil {
		j.fail(err)
	}
	j.wake.Broadcast()
}

// fail makes the journal dead; the caller holds mu.
func (j *Journal) fail(err error) {
	if j.err == nil {
		j.err = fmt.Errorf("journal %s: %w", j.opt.Dir, err)
		if j.opt.Failed != nil {
			go j.opt.Failed(j.err)
		}
	}
}

// commit writes what is pending; the caller leads.
func (j *Journal) commit(sync bool) error {
	j.mu.Lock()
	group, goal := j.pending, j.appended
	j.pending = nil
	j.mu.Unlock()

	rest := make([][]byte, len(group))
	for i, b := range group {
		rest[i] = b.slots
	}
	for len(rest) > 0 {
		var err error
		if rest, err = j.writeRecord(rest); err != nil {
			return err
		}
	}
	for _, b := range group {
		b.slots = b.slots[:slot]
		blocks.Put(b)
	}
	// A segment that was filled on the way was synced when it was sealed.
	if sync && j.cur != nil {
		if err := j.timedSync(); err != nil {
			return err
		}
	}
	if !sync && j.cur != nil {
		j.cur.beginSync()
	}
	j.mu.Lock()
	j.written = goal
	j.dirty = !sync
	j.mu.Unlock()
	return nil
}

// timedSync syncs the current segment, and reports how long that took.
func (j *Journal) timedSync() error {
	start, dirty := time.Now(), j.cur.dirty
	err := j.cur.sync()
	if j.opt.Synced != nil && dirty && err == nil {
		j.opt.Synced(time.Since(start))
	}
	return err
}

// Flush makes every key appended so far durable, whatever Options.Sync says.
func (j *Journal) Flush() error {
	return j.exclusive(func() error {
		j.mu.Lock()
		clean := !j.dirty && j.written == j.appended
		j.mu.Unlock()
		if clean {
			return nil
		}
		return j.commit(true)
	})
}

// exclusive waits until nobody leads and runs work as the leader.
func (j *Journal) exclusive(work func() error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for j.leading {
		j.wake.Wait()
	}
	if j.err != nil {
		return j.err
	}
	j.lead(work)
	return j.err
}

// Rotate makes everything appended so far durable and ends the segment. All that is
// appended from now on goes to segments from the returned sequence number on.
// An error that wraps ErrNoSpace or ErrShortage means that nothing was done, and is not
// final.
func (j *Journal) Rotate() (next uint64, err error) {
	var full error
	err = j.exclusive(func() error {
		if err := j.commit(true); err != nil {
			return err
		}
		if full = j.giveUpRest(); full != nil {
			return nil
		}
		if err := j.seal(); err != nil {
			return err
		}
		next = j.seq
		j.mu.Lock()
		j.grown = 0
		j.mu.Unlock()
		return nil
	})
	return next, errors.Join(err, full)
}

// Bytes is how much Replay would have to read of what was written since Rotate, or before Open.
func (j *Journal) Bytes() int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.grown
}

// Close makes everything durable and closes the files. Calls that are under way end
// with an error.
func (j *Journal) Close() error {
	err := j.exclusive(func() error {
		if err := j.commit(true); err != nil {
			return err
		}
		return j.seal()
	})
	if errors.Is(err, ErrClosed) {
		return nil
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = ErrClosed
	}
	j.wake.Broadcast()
	for j.growing || j.leading {
		j.wake.Wait()
	}
	for _, s := range j.spares {
		err = errors.Join(err, s.file.Close(), j.opt.FS.Remove("journal-spare-remove", s.file.Name()))
	}
	j.spares, j.free = nil, 0
	if j.cur != nil { // only after a failure
		_ = j.cur.file.Close()
		j.cur = nil
	}
	if j.dir != nil {
		err = errors.Join(err, j.dir.Close())
		j.dir = nil
	}
	return err
}

// Next returns the sequence number of the first segment that was not begun, after a Close that
// returned no error.
func (j *Journal) Next() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.seq
}

// Resume undoes a Close, even one that returned an error; if what was written could not be made durable, it
// does nothing. It reports whether the journal takes keys again. It must not be called concurrently with others.
func (j *Journal) Resume() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if errors.Is(j.err, ErrClosed) {
		j.err = nil
	}
	return j.err == nil
}
