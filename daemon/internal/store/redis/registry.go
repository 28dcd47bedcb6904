package redis

import (
	"context"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// The engine reaches the registry through the store.

var (
	_ engine.Numbers     = (*Store)(nil)
	_ engine.Quarantiner = (*Store)(nil)
)

// TakeID implements engine.Numbers. A Redis that has lost its data continues counting from what
// this daemon knows.
func (s *Store) TakeID(ctx context.Context, name string, least int) (int, error) {
	return s.registry.TakeID(ctx, name, least)
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(ctx context.Context, id int) error { return s.registry.NoteID(ctx, id) }

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined { return s.registry.Bad.Quarantined() }

// PutAway implements engine.Quarantiner: the entry is moved out of the registry. Its keys, if
// any, stay.
func (s *Store) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	if _, err := s.state.Check(); err != nil {
		return "", err
	}
	return s.registry.PutAway(ctx, q)
}
