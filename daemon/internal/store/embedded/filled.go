package embedded

import (
	"context"
	"errors"
	"fmt"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

var _ engine.Filler = (*Store)(nil)

// CreateFilled implements engine.Filler: the bits are filled in memory, and the folder
// that appears has all of them.
func (s *Store) CreateFilled(ctx context.Context, spec engine.Spec, h bloom.Header, fill func(context.Context, engine.Sink) error) (engine.Set, error) {
	if err := s.sticky(); err != nil {
		return nil, err
	}
	of, err := kindOf(spec)
	if err != nil {
		return nil, err
	}
	if of.BitMap == nil {
		return nil, &engine.KindError{Filter: spec.Name, Kind: spec.Kind, Lacks: engine.ErrNoBitMap}
	}
	bits, err := of.BitMap(h)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, staged{bits}); err != nil {
		return nil, errors.Join(err, bits.Free())
	}
	return s.create(spec, of, bits)
}

// staged is a bit-map that belongs to no filter yet.
type staged struct{ bits kind.BitMap }

func (u staged) Header() bloom.Header { return u.bits.Header() }

func (u staged) MergeStripe(_ context.Context, i int, data []byte) error {
	return u.bits.MergeStripe(i, data)
}

// Commit does nothing: the folder is written when the bits are complete.
func (u staged) Commit(context.Context) error { return nil }

// Create implements engine.Store.
func (s *Store) Create(_ context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	if err := s.sticky(); err != nil {
		return nil, err
	}
	if wrong := spec.NotIn(configs.StoreEmbedded); wrong != nil {
		return nil, wrong
	}
	of, err := kindOf(spec)
	if err != nil {
		return nil, err
	}
	m, err := of.New(spec, b, s.opt.Clock)
	if err != nil {
		return nil, err
	}
	return s.create(spec, of, m)
}

// create makes the folder of a new filter and begins to serve it.
func (s *Store) create(spec engine.Spec, of kind.Kind, m kind.Memory) (engine.Set, error) {
	dir, err := s.makeDir(spec, of.File, m)
	if err != nil {
		return nil, nameSpace(errors.Join(fmt.Errorf("create filter %s: %w", spec.Name, err), m.Free()))
	}
	_, set := s.start(spec, dir, of, m, journal.Found{Next: 1})
	return set, nil
}
