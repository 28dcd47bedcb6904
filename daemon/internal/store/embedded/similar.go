package embedded

import (
	"context"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// similar is a filter of documents.
type similar struct {
	*diskFilter
	texts kind.Similar
}

var _ engine.Similar = similar{}

// Fingerprint implements engine.Similar.
func (s similar) Fingerprint(text string) (print uint64, ok bool) { return s.texts.Fingerprint(text) }

// Distance implements engine.Similar.
func (s similar) Distance() int { return s.texts.Distance() }

// Near implements engine.Similar.
func (s similar) Near(_ context.Context, docs []engine.Document, how engine.Nearness, found []engine.Comparison) error {
	near := func() (int, error) { return len(docs), s.texts.Near(docs, how, found) }
	if !how.Remember {
		return s.has(func() { _, _ = near() }) // looking cannot fail
	}
	_, err := s.change(s.texts.Slots(docs), near)
	return err
}

// Memory implements engine.Growing.
func (s similar) Memory() uint64 { return s.texts.Bytes() }

// Add implements engine.Set.
func (s similar) Add(context.Context, []bloom.Hash, []bool) (int, error) { return 0, s.noItems() }

// Has implements engine.Set.
func (s similar) Has(context.Context, []bloom.Hash, []bool) error { return s.noItems() }

func (s similar) noItems() error {
	return &engine.KindError{Filter: s.spec.Name, Kind: s.spec.Kind, Lacks: engine.ErrKeepsTexts}
}
