package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Room is reserved before a batch is accepted, not when it is written: a full disk is
// then an answer to the caller, with nothing remembered, and not a failed write after
// which nobody knows what was remembered.

// cost is the number of slots that n entries may take: they reach the journal in chunks
// of bloom's size, or in parts, and each of these may become a record of its own.
func (j *Journal) cost(n int) int64 {
	return int64(n)*int64(j.opt.Width) + int64(n)/256 + int64(min(n, j.opt.Parts)) + 2
}

// overhead is the room of a segment that is not promised to batches: for the additional header
// of a group that is split between two segments, and for the slots before the seal that are
// too few for an entry.
func (j *Journal) overhead() int64 { return int64(j.opt.Width) + 2 }

// Reserve makes sure that n entries can be appended without the disk getting full. It
// is called before the keys become visible, and Release after Wait. The error wraps
// ErrNoSpace if there is no space, and ErrShortage if a file could not be made for lack
// of descriptors or memory; then nothing has changed, and a later call may succeed.
func (j *Journal) Reserve(n int) error {
	need := j.cost(n)
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.ensure(func() bool { return j.free-j.reserved >= need }, need); err != nil {
		if errors.Is(err, ErrNoSpace) || errors.Is(err, ErrShortage) {
			j.refused = max(j.refused, n)
		}
		return err
	}
	if n >= j.refused {
		j.refused = 0
	}
	j.reserved += need
	// Make the next segment ahead of time, before all of the last one is needed.
	if j.free-j.reserved < j.nextSize/slot/2 && !j.growing && time.Since(j.fullAt) > retrySpace && time.Since(j.aheadAt) > retrySpace {
		j.growing = true
		go func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			_ = j.grow(0) // a failure of the disk is remembered in err
		}()
	}
	return nil
}

// Release ends what Reserve began.
func (j *Journal) Release(n int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.reserved -= j.cost(n)
}

// Full says why Reserve would fail, for a single key or for as many as it last refused;
// nil when it would not.
func (j *Journal) Full() error {
	j.mu.Lock()
	n := max(1, j.refused)
	j.mu.Unlock()
	if err := j.Reserve(n); err != nil {
		return err
	}
	j.Release(n)
	return nil
}

// giveUpRest stops counting the rest of the current segment as free, once there is room
// elsewhere for all that was promised. The leader calls it before sealing early.
func (j *Journal) giveUpRest() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cur == nil {
		return nil
	}
	rest := j.cur.slots()
	if err := j.ensure(func() bool { return j.free-rest >= j.reserved }, j.reserved); err != nil {
		return err
	}
	j.free -= rest
	return nil
}

// ensure makes spares until enough says so; the caller holds mu.
func (j *Journal) ensure(enough func() bool, need int64) error {
	for {
		switch {
		case j.err != nil:
			return j.err
		case enough():
			return nil
		case j.growing:
			j.wake.Wait()
		case time.Since(j.fullAt) < retrySpace:
			return j.fullErr
		default:
			j.growing = true
			if err := j.grow(need); err != nil {
				return err
			}
		}
	}
}

// grow makes a spare of at least need slots. The caller holds mu and has set growing;
// mu is released while it works.
func (j *Journal) grow(need int64) error {
	least := headerSize + (need+j.overhead()+1)*slot
	size := max(j.nextSize, least)
	j.mu.Unlock()
	s, err := j.makeSpare(size)
	if disk.IsNoSpace(err) && need > 0 && least < size {
		s, err = j.makeSpare(max(least, 64<<10))
	}
	j.mu.Lock()
	j.growing = false
	j.wake.Broadcast()
	switch {
	case err == nil && j.err != nil: // closed meanwhile
		_ = s.file.Close()
		_ = j.opt.FS.Remove("journal-spare-remove", s.file.Name())
		return j.err
	case err == nil:
		j.spares = append(j.spares, s)
		j.free += s.slots()
		j.nextSize = min(j.nextSize*2, maxSegment)
		return nil
	case (disk.IsNoSpace(err) || disk.IsShortage(err)) && need == 0:
		// There was no room for a whole segment ahead of time; a caller that needs room
		// now may find enough for a small one.
		j.aheadAt = time.Now()
		return err
	case disk.IsShortage(err): // nobody waits for anything that was being written
		j.fullAt = time.Now()
		j.fullErr = fmt.Errorf("%w: %w", ErrShortage, err)
		return j.fullErr
	case disk.IsNoSpace(err):
		j.fullAt = time.Now()
		j.fullErr = fmt.Errorf("%w: %w", ErrNoSpace, err)
		return j.fullErr
	default:
		j.fail(err)
		return j.err
	}
}

// makeSpare makes a file for a segment.
func (j *Journal) makeSpare(size int64) (*segment, error) {
	if err := j.openDir(); err != nil {
		return nil, err
	}
	path := j.sparePath()
	f, err := j.opt.FS.OpenFile("journal-spare-create", path, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	switch {
	case errors.Is(err, os.ErrExist): // a journal before this one could not remove it; Replay will
		return j.makeSpare(size)
	case err != nil:
		return nil, err
	}
	err = f.Zero("journal-spare-zero", size)
	if err == nil {
		err = f.Sync("journal-spare-sync")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), j.opt.FS.Remove("journal-spare-remove", path))
	}
	return &segment{file: f, size: size, off: headerSize, overhead: j.overhead()}, nil
}

// openDir opens the directory, so that a segment can be begun when no descriptor is left.
func (j *Journal) openDir() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.dir != nil {
		return nil
	}
	d, err := j.opt.FS.OpenDir(j.opt.Dir)
	j.dir = d
	return err
}

// sparePath returns a name that no other spare of this journal has.
func (j *Journal) sparePath() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.made++
	return filepath.Join(j.opt.Dir, fmt.Sprintf("%s%d", sparePrefix, j.made))
}

// Discard removes the segments before next, which a bit-map file now covers. Up to
// two are kept as spares, because reusing a file is cheaper than filling a new one.
func (j *Journal) Discard(next uint64) error {
	names, err := dirNames(j.opt.Dir)
	if err != nil {
		return err
	}
	for _, seq := range segments(names) {
		if seq >= next {
			break
		}
		if err := j.recycle(segmentPath(j.opt.Dir, seq)); err != nil {
			return err
		}
	}
	return nil
}

func (j *Journal) recycle(path string) error {
	fs := j.opt.FS
	j.mu.Lock()
	wanted := j.err == nil && len(j.spares) < 2
	j.mu.Unlock()
	if !wanted || j.openDir() != nil {
		return fs.Remove("journal-remove", path)
	}
	spare := j.sparePath()
	if err := fs.Rename("journal-recycle", path, spare); err != nil {
		return err
	}
	// Before its bytes change, a crash must no longer be able to restore the old name.
	if err := j.dir.Sync("journal-recycle-syncdir"); err != nil {
		return err
	}
	f, err := fs.OpenFile("journal-recycle-open", spare, os.O_RDWR)
	if err == nil {
		err = j.adopt(f)
	}
	if err != nil { // it was to be removed in any case
		return fs.Remove("journal-spare-remove", spare)
	}
	return nil
}

// adopt makes a spare of a file. On an error it closes the file.
func (j *Journal) adopt(f *disk.File) error {
	size, err := f.Size()
	if err == nil && size < j.opt.FirstSegment {
		err = errors.New("too small")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err = errors.Join(err, j.err); err != nil {
		return errors.Join(err, f.Close())
	}
	s := &segment{file: f, size: size, off: headerSize, overhead: j.overhead()}
	j.spares = append(j.spares, s)
	j.free += s.slots()
	return nil
}

func dirNames(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	return d.Readdirnames(-1)
}
