package embedded

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

// diskFilter is one filter of any kind: its memory, a file of the memory, and a journal of
// what the file does not have yet.
//
// An item goes first into memory and, under the same lock, into the journal's buffer; so
// a batch that finds an item seen finds it already in the buffer, and before it answers
// it waits for the sync that covers the item. The same holds for an item that is forgotten.
// Nothing that a crash could undo is acknowledged, as new or as duplicate.
type diskFilter struct {
	store   *Store
	spec    engine.Spec
	dir     string
	kind    kind.Kind
	memory  kind.Memory
	journal *journal.Journal

	use  sync.RWMutex // read-held by batches, write-held to end them
	gone bool
	end  func() // called, if not nil, when the filter is gone

	checkpointing sync.Mutex
	// After a checkpoint that failed, guarded by checkpointing: when the next one is tried, and how long
	// that is after the last.
	retryAt time.Time
	retryIn time.Duration
	// pending is, after a checkpoint that failed, the first segment that the file would not have covered; 0: none
	// has failed. It stays 0 while a first try runs, or another would follow that one for nothing.
	pending atomic.Uint64
}

// enter read-holds use, unless the filter is gone.
func (k *diskFilter) enter() error {
	k.use.RLock()
	if k.gone {
		k.use.RUnlock()
		return &engine.UnknownFilterError{Ref: k.spec.Name}
	}
	return nil
}

// change lets work add or forget n items at most, and waits until that is durable.
func (k *diskFilter) change(n int, work func() (int, error)) (int, error) {
	if err := k.enter(); err != nil {
		return 0, err
	}
	defer k.use.RUnlock()
	if err := k.journal.Reserve(n); err != nil {
		return 0, translate(err)
	}
	defer k.journal.Release(n)
	changed, err := work()
	if err != nil { // some may have been added, and callers that see them would wait for the rest
		k.store.fail(fmt.Errorf("filter %s: %w", k.spec.Name, err))
		return 0, fmt.Errorf("%w: %w", engine.ErrFailed, err)
	}
	return changed, translate(k.journal.Wait())
}

// has lets work look, and waits until what it may have seen is durable.
func (k *diskFilter) has(work func()) error {
	if err := k.enter(); err != nil {
		return err
	}
	defer k.use.RUnlock()
	work()
	return translate(k.journal.Wait())
}

// translate wraps the journal's errors in those of the engine.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrNoSpace):
		return fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	case errors.Is(err, journal.ErrShortage):
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	default:
		return fmt.Errorf("%w: %w", engine.ErrFailed, err)
	}
}

// nameSpace wraps an error that is caused by a full disk, or by too few descriptors, in
// that of the engine.
func nameSpace(err error) error {
	switch {
	case disk.IsNoSpace(err):
		return fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	case disk.IsShortage(err):
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, err)
	}
	return err
}

// due tells whether a restart would have too much journal to read: a quarter of the
// file is replayed in less time than the file is read.
func (k *diskFilter) due() bool {
	journaled := k.journal.Bytes()
	p, ok := k.memory.(kind.Sweeping)
	return k.pending.Load() != 0 || journaled > max(k.store.opt.CheckpointBytes, int64(k.memory.Bytes()/4)) || ok && p.Stale(journaled)
}

// checkpoint rewrites the file and drops the journal before it. A failure leaves the
// old file and the whole journal: nothing is lost, the journal grows.
func (k *diskFilter) checkpoint() error {
	return k.checkpointBy(false, func(path string, from uint64) error { return k.memory.Write(k.store.opt.FS, path, from) })
}

// checkpointBy is checkpoint, but write writes the file. If somebody waits for it, it runs
// now, even soon after a checkpoint that failed.
func (k *diskFilter) checkpointBy(waited bool, write func(path string, from uint64) error) error {
	k.checkpointing.Lock()
	defer k.checkpointing.Unlock()
	k.use.RLock()
	defer k.use.RUnlock()
	switch {
	case k.gone && waited:
		return &engine.UnknownFilterError{Ref: k.spec.Name}
	case k.gone, !waited && time.Now().Before(k.retryAt):
		return nil
	}
	start := time.Now()
	err := k.writeCheckpoint(write)
	if err != nil {
		k.retryIn = min(max(2*k.retryIn, checkpointRetry), maxCheckpointRetry)
		k.retryAt = time.Now().Add(k.retryIn)
		return fmt.Errorf("checkpoint of filter %s: %w", k.spec.Name, nameSpace(err))
	}
	k.retryIn, k.retryAt = 0, time.Time{}
	k.store.log.Debug("checkpoint", "filter", k.spec.Name, "took", time.Since(start), slog.Uint64("bytes", k.memory.Bytes()))
	return nil
}

// writeCheckpoint does again what has failed, from the same segment on: each rotation takes a new
// file, perhaps on a disk that is nearly full.
func (k *diskFilter) writeCheckpoint(write func(path string, from uint64) error) error {
	from := k.pending.Load()
	if from == 0 {
		var err error
		if from, err = k.journal.Rotate(); err != nil {
			return err
		}
	}
	// Every key in a segment before from was in memory before it was appended.
	err := write(filepath.Join(k.dir, k.kind.File), from)
	if err == nil {
		err = k.journal.Discard(from)
	}
	if err != nil {
		k.pending.Store(from)
		return err
	}
	k.pending.Store(0)
	return nil
}

// sweep releases a part of the expired items.
func (k *diskFilter) sweep() error {
	p, ok := k.memory.(kind.Sweeping)
	if !ok || k.enter() != nil { // dropped meanwhile
		return nil
	}
	defer k.use.RUnlock()
	return p.Sweep()
}

// room says why a batch would not be accepted now.
func (k *diskFilter) room() error {
	if k.enter() != nil {
		return nil // dropped meanwhile
	}
	defer k.use.RUnlock()
	return translate(k.journal.Full())
}

// drop ends the set and moves its folder to another name. On an error nothing has changed.
func (k *diskFilter) drop() (away string, err error) {
	defer k.ended()
	k.use.Lock()
	defer k.use.Unlock()
	if k.gone {
		return "", &engine.UnknownFilterError{Ref: k.spec.Name}
	}
	if err := k.journal.Close(); err != nil {
		k.journal.Resume()
		return "", err
	}
	if away, err = k.store.takeAway(k.dir); err != nil {
		k.journal.Resume()
		return "", err
	}
	k.gone = true
	if err := k.memory.Free(); err != nil {
		k.store.log.Warn("memory of a dropped filter is not released", "filter", k.spec.Name, "err", err)
	}
	return away, nil
}

// close ends the set, and records where its journal ends. It waits for batches under way; later
// ones get an error.
func (k *diskFilter) close() error {
	defer k.ended()
	k.use.Lock()
	defer k.use.Unlock()
	if k.gone {
		return nil
	}
	k.gone = true
	err := k.journal.Close()
	if err == nil {
		if err := writeState(k.store.opt.FS, k.dir, k.memory, k.journal.Next()); err != nil { // the journal itself is whole
			k.store.log.Warn("the end of a filter's journal is not recorded", "filter", k.spec.Name, "err", err)
		}
	}
	return errors.Join(err, k.memory.Free())
}

// ended calls end if the set is gone.
func (k *diskFilter) ended() {
	k.use.RLock()
	gone := k.gone
	k.use.RUnlock()
	if gone && k.end != nil {
		k.end()
	}
}
