package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// cramped is a store in which no filter can be made while it is full.
type cramped struct {
	engine.Store
	full *atomic.Bool
}

func (c cramped) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	if c.full.Load() {
		return nil, fmt.Errorf("%w: %w", engine.ErrNoSpace, syscall.ENOSPC)
	}
	return c.Store.Create(ctx, spec, b)
}

// A filter of the settings for which there is no space does not keep the others from being served,
// says why it is not, keeps its id, and is made when there is space.
func TestNoSpaceForAFilterOfTheSettings(t *testing.T) {
	dir := t.TempDir()
	open(t, dir, engine.Settings{Filters: []engine.Spec{spec(1, "uri")}}).close()
	var full atomic.Bool
	full.Store(true)
	want := []engine.Spec{spec(5, "late"), spec(1, "uri")}
	b := open(t, dir, engine.Settings{Filters: want}, func(s engine.Store) engine.Store { return cramped{s, &full} })
	if n := b.fresh("uri", 1, 2); n != 2 {
		t.Errorf("%d new, want 2", n)
	}
	for _, ref := range []string{"late", "5"} {
		if _, err := b.Lookup(ref); !errors.Is(err, engine.ErrNoSpace) {
			t.Errorf("%s: %v, want ErrNoSpace", ref, err)
		}
	}
	if err := b.Ready(t.Context()); err == nil {
		t.Error("ready without a filter of the settings")
	}
	if _, _, err := b.Create(t.Context(), spec(5, "other")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("another filter with its id: %v, want ErrConflict", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b.MakeMissing(ctx, time.Hour) // given up
	full.Store(false)
	b.MakeMissing(t.Context(), time.Millisecond)
	if n := b.fresh("5", 1, 2); n != 2 {
		t.Errorf("made: %d new, want 2", n)
	}
	if err := b.Ready(t.Context()); err != nil {
		t.Errorf("not ready: %v", err)
	}
}

// taken is a store with no space at first; then another daemon has the filter's id, for a while.
type taken struct {
	engine.Store
	asked *atomic.Int64
}

func (s taken) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	switch n := s.asked.Add(1); {
	case n == 1:
		return nil, engine.ErrNoSpace
	case n < 10:
		return nil, fmt.Errorf("id %d is that of other: %w", spec.ID, engine.ErrConflict)
	}
	return s.Store.Create(ctx, spec, b)
}

// What keeps a filter of the settings from being made is logged once, however often it is tried.
func TestConflictOfAMissingFilterIsLoggedOnce(t *testing.T) {
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(5, "late")}}, func(s engine.Store) engine.Store { return taken{s, new(atomic.Int64)} })
	b.MakeMissing(t.Context(), time.Millisecond)
	if log := b.log.String(); strings.Count(log, "a filter of the settings cannot be made\"") != 1 {
		t.Errorf("log:\n%s", log)
	}
}
