package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

var _ engine.Filler = (*Store)(nil)

// CreateFilled implements engine.Filler: the bits are filled in memory, and the folder
// that appears has all of them.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	return s.create(spec, h, func(bits *bloom.Map) error { return fill(ctx, unborn{bits}) })
}

// unborn is a bit-map that no filter has yet.
type unborn struct{ bits *bloom.Map }

func (u unborn) Header() bloom.Header { return u.bits.Header() }

func (u unborn) MergeStripe(_ context.Context, i int, data []byte) error {
	return u.bits.MergeStripe(i, data)
}

// Commit does nothing: the folder is written when the bits are whole.
func (u unborn) Commit(context.Context) error { return nil }

// create makes a filter whose bit-map is what fill leaves.
func (s *Store) create(spec engine.Spec, h bloom.Header, fill func(*bloom.Map) error) (engine.Set, error) {
	if err := s.sticky(); err != nil {
		return nil, err
	}
	bits, err := bloom.New(h)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
	}
	if err := fill(bits); err != nil {
		return nil, errors.Join(err, bits.Close())
	}
	dir, err := s.makeDir(spec, bits)
	if err != nil {
		err = errors.Join(fmt.Errorf("create filter %s: %w", spec.Name, err), bits.Close())
		if durable.IsNoSpace(err) {
			err = fmt.Errorf("%w: %w", engine.ErrNoSpace, err)
		}
		return nil, err
	}
	return s.start(spec, dir, bits, 1), nil
}
