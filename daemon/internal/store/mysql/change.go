package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Create implements engine.Store. If another daemon was quicker with the same parameters, the
// filter is that daemon's, and b is not used.
func (s *Store) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	if err := takes(spec); err != nil {
		return nil, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	e, err := newEntry(spec, b)
	if err != nil {
		return nil, err
	}
	err = s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		have, err := readEntries(ctx, c)
		if err != nil {
			return err
		}
		for _, other := range have {
			switch {
			case other.spec == spec:
				e = other
				return nil
			case other.spec.Name == spec.Name, other.spec.ID == spec.ID:
				return fmt.Errorf("filter %s, id %d: mysql has %s, id %d: %w", spec.Name, spec.ID, other.spec.Name, other.spec.ID, engine.ErrConflict)
			}
		}
		if err := createItems(ctx, c, e.table); err != nil {
			return err
		}
		return insertEntry(ctx, c, e)
	})
	if err != nil {
		return nil, s.changeFailed(err)
	}
	set, err := s.load(ctx, e)
	if err != nil {
		return nil, s.trouble(err)
	}
	return s.adopt(set), nil
}

// changeFailed returns the error of a change of the registry, which may have been made in part.
func (s *Store) changeFailed(err error) error {
	s.untidy.Store(true)
	s.pollSoon()
	return s.trouble(err)
}

// Drop implements engine.Store. The other daemons find the table gone at once.
func (s *Store) Drop(ctx context.Context, spec engine.Spec) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	set := s.find(spec.Name)
	if set == nil {
		return &engine.UnknownFilterError{Ref: spec.Name}
	}
	err := s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		entries, err := readEntries(ctx, c)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(entries, func(e entry) bool { return e.spec.Name == spec.Name })
		if i < 0 {
			return nil // another daemon has dropped it
		}
		// Another daemon may have cleared it, or made it again, and this one, or its engine, not have followed.
		e := entries[i]
		if e.spec != spec && (e.table != set.table || set.spec != spec) { // of an entry that cannot be read, the table tells
			return fmt.Errorf("filter %s: was dropped and made again by another daemon: %w", spec.Name, engine.ErrConflict)
		}
		if gone, err := deleteEntry(ctx, c, e); err != nil || !gone {
			return err
		}
		return errors.Join(dropTable(ctx, c, e.table), endReservations(ctx, c, e.table))
	})
	if err != nil {
		return s.changeFailed(err)
	}
	s.end(set)
	return nil
}

// Clear implements engine.Store: the filter gets another table, and then the old one is dropped,
// which ends it for every daemon at the same moment.
func (s *Store) Clear(ctx context.Context, spec engine.Spec, b engine.Identity, serve func(engine.Set)) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	var e entry
	err := s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		entries, err := readEntries(ctx, c)
		if err != nil {
			return err
		}
		old, found := entryOf(entries, spec)
		if !found {
			return &engine.UnknownFilterError{Ref: spec.Name}
		}
		b.Generation = max(b.Generation, old.generation+1)
		if e, err = newEntry(spec, b); err != nil {
			return err
		}
		if err := createItems(ctx, c, e.table); err != nil {
			return err
		}
		if err := replaceEntry(ctx, c, old, e); err != nil {
			return err
		}
		return errors.Join(dropTable(ctx, c, old.table), endReservations(ctx, c, old.table))
	})
	if err != nil {
		return s.changeFailed(err)
	}
	set, err := s.load(ctx, e)
	if err != nil {
		return s.trouble(err)
	}
	serve(s.adopt(set))
	return nil
}

// TakeID implements engine.Numbers.
func (s *Store) TakeID(ctx context.Context, name string, least int) (id int, err error) {
	err = s.number(ctx, func(have map[string]int) (changes map[string]int) {
		id, changes = shared.TakeID(have, name, least)
		return changes
	})
	return id, err
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(ctx context.Context, id int) error {
	return s.number(ctx, func(have map[string]int) map[string]int { return shared.NoteID(have, id) })
}

// number changes idsTable in one step: set returns which rows get which ids, given those that
// exist.
func (s *Store) number(ctx context.Context, set func(have map[string]int) map[string]int) error {
	return s.trouble(s.locked(ctx, func(ctx context.Context, c *sql.Conn) error {
		have, err := readIDs(ctx, c)
		if err != nil {
			return err
		}
		tx, err := c.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer rollback(tx)
		for name, id := range set(have) {
			if _, err := tx.ExecContext(ctx, "insert into "+idsTable+" (name, id) values (?, ?) on duplicate key update id = values(id)", name, id); err != nil {
				return err
			}
		}
		return tx.Commit()
	}))
}

func readIDs(ctx context.Context, c querier) (map[string]int, error) {
	have := map[string]int{}
	var name string
	var id int
	return have, eachRow(ctx, c, "select name, id from "+idsTable, func() { have[name] = id }, &name, &id)
}

var _ engine.Numbers = (*Store)(nil)
