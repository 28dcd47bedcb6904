package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

var _ engine.Filler = (*Store)(nil)

// CreateFilled implements engine.Filler: the bits are filled in memory, and the folder
// that appears has all of them.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	if err := s.sticky(); err != nil {
		return nil, err
	}
	bits, err := newBitmap(h)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, unborn{bits.Map}); err != nil {
		return nil, errors.Join(err, bits.Close())
	}
	return s.found(spec, bloomKind(), bits)
}

// unborn is a bit-map that no filter has yet.
type unborn struct{ bits *bloom.Map }

func (u unborn) Header() bloom.Header { return u.bits.Header() }

func (u unborn) MergeStripe(_ context.Context, i int, data []byte) error {
	return u.bits.MergeStripe(i, data)
}

// Commit does nothing: the folder is written when the bits are whole.
func (u unborn) Commit(context.Context) error { return nil }

// Create implements engine.Store.
func (s *Store) Create(_ context.Context, spec engine.Spec, b engine.Birth) (engine.Set, error) {
	if err := s.sticky(); err != nil {
		return nil, err
	}
	kind, err := kindOf(spec, s.opt.Clock)
	if err != nil {
		return nil, err
	}
	m, err := kind.create(spec, b)
	if err != nil {
		return nil, err
	}
	return s.found(spec, kind, m)
}

// found makes the folder of a new filter and begins to serve it.
func (s *Store) found(spec engine.Spec, kind kind, m memory) (engine.Set, error) {
	dir, err := s.makeDir(spec, kind, m)
	if err != nil {
		return nil, nameSpace(errors.Join(fmt.Errorf("create filter %s: %w", spec.Name, err), m.free()))
	}
	_, set := s.start(spec, dir, kind, m, 1)
	return set, nil
}
