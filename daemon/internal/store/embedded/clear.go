package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

const (
	// clearedSuffix is the suffix of a cleared filter's new file until it replaces the old
	// one; a start removes such a file.
	clearedSuffix = ".cleared.tmp"
	// segmentsMeanwhile is more segments than a journal can begin while such a file is written.
	segmentsMeanwhile = 1 << 20
)

// Clear implements engine.Store. A file of an empty memory, of a later generation, replaces
// the filter's file by one rename. It covers all segments of the journal so far: a start before
// the rename reads the old file and the journal; a start after it reads the new file and skips
// the segments. Batches continue while the file is written, and wait for the rename.
func (s *Store) Clear(_ context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	if err := s.sticky(); err != nil {
		return err
	}
	s.mu.Lock()
	k := s.sets[spec.Name]
	s.mu.Unlock()
	if k == nil {
		return &engine.UnknownFilterError{Ref: spec.Name}
	}
	m, err := k.kind.New(spec, b, s.opt.Clock)
	if err != nil {
		return err
	}
	if err := s.withReserve(func() error { return k.clear(m, serve) }); err != nil {
		return nameSpace(errors.Join(fmt.Errorf("clear filter %s: %w", spec.Name, err), m.Free()))
	}
	return nil
}

// clear ends k, and serves m in its folder. On an error nothing has changed, or the store
// has failed.
func (k *diskFilter) clear(m kind.Memory, serve func(engine.Set)) error {
	from, err := k.replaceFile(m)
	if err != nil {
		return err
	}
	if k.end != nil {
		k.end() // before the new set has files of the same names
	}
	now, set := k.store.start(k.spec, k.dir, k.kind, m, journal.Found{Next: from})
	serve(set)
	if err := k.memory.Free(); err != nil {
		k.store.log.Warn("memory of a cleared filter is not released", "filter", k.spec.Name, "err", err)
	}
	if err := now.journal.Discard(from); err != nil {
		k.store.log.Warn("journal of a cleared filter is left; the next checkpoint removes it", "filter", k.spec.Name, "err", err)
	}
	return nil
}

// replaceFile writes the file of m and replaces the old one by it. It returns the journal's
// first segment that the file does not cover.
func (k *diskFilter) replaceFile(m kind.Memory) (from uint64, err error) {
	k.checkpointing.Lock()
	defer k.checkpointing.Unlock()
	next, err := k.journal.Rotate()
	if err != nil {
		return 0, translate(err)
	}
	defer func() {
		if err != nil {
			k.pending.CompareAndSwap(0, next) // no checkpoint has followed the rotation
		}
	}()
	from = next + segmentsMeanwhile
	fs, path := k.store.opt.FS, filepath.Join(k.dir, k.kind.File)
	if err := m.Write(fs, path+clearedSuffix, from); err != nil {
		return 0, err
	}
	if err := k.switchFile(path, from); err != nil {
		_ = fs.Remove("clear-remove", path+clearedSuffix)
		return 0, err
	}
	return from, nil
}

// switchFile ends k when no batch is under way, and renames the file.
func (k *diskFilter) switchFile(path string, from uint64) error {
	fs := k.store.opt.FS
	k.use.Lock()
	defer k.use.Unlock()
	if k.gone {
		return &engine.UnknownFilterError{Ref: k.spec.Name}
	}
	switch next, err := k.journal.Rotate(); {
	case err != nil:
		return translate(err)
	case next > from:
		return fmt.Errorf("journal segment %d: want %d at most", next, from)
	}
	if err := k.journal.Close(); err != nil {
		if k.journal.Resume() {
			return err // of a file that is not needed
		}
		return translate(err)
	}
	err := fs.Rename("clear-rename", path+clearedSuffix, path)
	if err != nil {
		if _, there := os.Lstat(path + clearedSuffix); there == nil {
			k.journal.Resume()
			return err
		}
	} else {
		err = fs.SyncDir("clear-syncdir", k.dir)
	}
	if err != nil {
		k.store.fail(err) // nobody knows which of the two the disk has
		return err
	}
	k.gone = true
	return nil
}
