package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/journal"
)

// set is one filter: a bit-map in memory, a file of it, and a journal of what the file
// does not have yet.
//
// An item goes first into the bits and, under the same lock, into the journal's
// buffer; so whoever sees an item as seen finds it already in the buffer, and waits,
// before answering, for the sync that covers it. Nothing is acknowledged, as new or as
// duplicate, that a crash could take back.
type set struct {
	store   *Store
	spec    engine.Spec
	dir     string
	bits    *bloom.Map
	journal *journal.Journal

	use  sync.RWMutex // read-held by batches, write-held to end them
	gone bool

	checkpointing sync.Mutex
	retryAt       time.Time // after a checkpoint that failed; guarded by checkpointing

	writtenBack atomic.Pointer[time.Time]
}

// Add implements engine.Set.
func (s *set) Add(_ context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return 0, &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	if err := s.journal.Reserve(len(keys)); err != nil {
		return 0, translate(err)
	}
	defer s.journal.Release(len(keys))
	n := s.bits.Add(keys, fresh)
	return n, translate(s.journal.Wait())
}

// Has implements engine.Set.
func (s *set) Has(_ context.Context, keys []bloom.Hash, fresh []bool) error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	s.bits.Has(keys, fresh)
	return translate(s.journal.Wait())
}

// translate gives the journal's errors the engine's names.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, journal.ErrNoSpace):
		return fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	default:
		return fmt.Errorf("%w: %w", engine.ErrFailed, err)
	}
}

// Seed implements engine.Set.
func (s *set) Seed() uint64 { return s.bits.Header().Seed }

// Stats implements engine.Set.
func (s *set) Stats() engine.Stats {
	h, fill := s.bits.Header(), s.bits.Fill()
	st := engine.Stats{Items: fill.Items, Fill: fill.Ratio, FPR: fill.FPR, Bytes: h.Bytes(), Generation: h.Generation}
	if at := s.writtenBack.Load(); at != nil {
		st.LastWriteback = *at
	}
	return st
}

// WrittenBack implements engine.Set.
func (s *set) WrittenBack(at time.Time) { s.writtenBack.Store(&at) }

// Header implements engine.Set.
func (s *set) Header() bloom.Header { return s.bits.Header() }

// Stripe implements engine.Set.
func (s *set) Stripe(_ context.Context, i int, buf []byte) ([]byte, error) {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return nil, &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	return s.bits.Stripe(i, buf), nil
}

// MergeStripe implements engine.Set.
func (s *set) MergeStripe(_ context.Context, i int, data []byte) error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return &engine.UnknownFilterError{Ref: s.spec.Name}
	}
	return s.bits.MergeStripe(i, data)
}

// Commit implements engine.Set.
func (s *set) Commit(context.Context) error {
	s.checkpointing.Lock()
	s.retryAt = time.Time{}
	s.checkpointing.Unlock()
	return s.checkpoint()
}

// due tells whether a restart would have too much journal to read: a quarter of the
// bit-map is replayed in less time than the bit-map is read.
func (s *set) due() bool {
	return s.journal.Bytes() > max(s.store.opt.CheckpointBytes, int64(s.bits.Header().Bytes()/4))
}

// checkpoint writes the bit-map file anew and drops the journal before it. A failure
// leaves the old file and the whole journal: nothing is lost, the journal grows.
func (s *set) checkpoint() error {
	s.checkpointing.Lock()
	defer s.checkpointing.Unlock()
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone || time.Now().Before(s.retryAt) {
		return nil
	}
	start := time.Now()
	err := s.writeCheckpoint()
	if err != nil {
		s.retryAt = time.Now().Add(checkpointRetry)
		return fmt.Errorf("checkpoint of filter %s: %w", s.spec.Name, err)
	}
	s.store.log.Debug("checkpoint", "filter", s.spec.Name, "took", time.Since(start), slog.Uint64("bytes", s.bits.Header().Bytes()))
	return nil
}

func (s *set) writeCheckpoint() error {
	from, err := s.journal.Rotate()
	if err != nil {
		return err
	}
	// Every key in a segment before from had its bits set before it was appended.
	if err := writeBitmap(s.store.opt.FS, filepath.Join(s.dir, bitmapName), s.bits, from); err != nil {
		return err
	}
	return s.journal.Discard(from)
}

// close ends the set. Batches under way are waited for, later ones get an error.
func (s *set) close() error {
	s.use.Lock()
	defer s.use.Unlock()
	if s.gone {
		return nil
	}
	s.gone = true
	return errors.Join(s.journal.Close(), s.bits.Close())
}
