package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// mergeName is the file of stripes that are to be merged; a start removes it.
const mergeName = "merge.tmp"

// merging keeps stripes that are merged into a bit-map until Commit makes them durable: if
// they went into memory at once, items would be called seen that a power cut makes new again.
type merging struct {
	sync.Mutex
	file    *disk.File // nil: none
	stripes []int      // that the file has, each at its place
}

// or sets the bits of the file's stripe i, if it has one, in stripe.
func (m *merging) or(i int, stripe []byte) error {
	if !slices.Contains(m.stripes, i) {
		return nil
	}
	more := make([]byte, len(stripe))
	if _, err := m.file.ReadAt(more, int64(i)*bloom.StripeBytes); err != nil {
		return err
	}
	for at, bits := range more {
		stripe[at] |= bits
	}
	return nil
}

// end forgets what is not committed; the caller holds m.
func (m *merging) end(fs disk.FS) error {
	if m.file == nil {
		return nil
	}
	err := errors.Join(m.file.Close(), fs.Remove("merge-remove", m.file.Name()))
	m.file, m.stripes = nil, nil
	return err
}

// endMerging closes and removes the file, for a set that is ended.
func (s *set) endMerging() {
	s.merging.Lock()
	defer s.merging.Unlock()
	_ = s.merging.end(s.store.opt.FS) // its folder may be removed
}

// MergeStripe implements engine.BitMap.
func (s *set) MergeStripe(_ context.Context, i int, data []byte) error {
	m := &s.merging
	m.Lock()
	defer m.Unlock()
	if err := s.enter(); err != nil {
		return err
	}
	defer s.use.RUnlock()
	if err := s.bits.Reach(i); err != nil {
		return err
	}
	if len(data) != s.bits.Header().StripeSize(i) {
		return s.bits.MergeStripe(i, data) // says what is wrong
	}
	if err := s.stage(i, data); err != nil {
		return fmt.Errorf("filter %s: %w", s.spec.Name, nameSpace(err))
	}
	return nil
}

// stage adds to the file; the caller holds merging.
func (s *set) stage(i int, data []byte) error {
	m := &s.merging
	if m.file == nil {
		f, err := s.store.opt.FS.OpenFile("merge-create", filepath.Join(s.dir, mergeName), os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		m.file = f
	}
	merged := slices.Clone(data)
	if err := m.or(i, merged); err != nil {
		return err
	}
	if err := m.file.WriteAt("merge-write", merged, int64(i)*bloom.StripeBytes); err != nil {
		return err
	}
	if !slices.Contains(m.stripes, i) {
		m.stripes = append(m.stripes, i)
	}
	return nil
}

// Commit implements engine.BitMap: the merged bits go into the filter's file first, and
// into memory when the file is on disk.
func (s *set) Commit(context.Context) error {
	s.merging.Lock()
	defer s.merging.Unlock()
	return s.checkpointBy(true, func(path string, from uint64) error {
		if err := s.bits.WriteWith(s.store.opt.FS, path, from, s.merging.or); err != nil {
			return err
		}
		buf := make([]byte, bloom.StripeBytes)
		for _, i := range s.merging.stripes {
			stripe := buf[:s.bits.Header().StripeSize(i)]
			clear(stripe)
			if err := s.merging.or(i, stripe); err != nil {
				return err
			}
			if err := s.bits.MergeStripe(i, stripe); err != nil {
				return err
			}
		}
		return s.merging.end(s.store.opt.FS)
	})
}
