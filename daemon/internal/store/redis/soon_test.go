package redis

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// What one daemon has made another one finds at once, and what one has dropped no other one serves
// once the drop is answered. Without a question to the registry that would take the other until
// its next look, up to a second later.
func TestFiltersOfOthersAreFoundAtOnce(t *testing.T) {
	server := redistest.Start(t)
	ctx := context.Background()
	daemon := func() *engine.Engine {
		t.Helper()
		s, err := Open(ctx, Config{Options: Options{Addrs: []string{server.Addr}}, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		e, err := engine.Open(ctx, s, engine.Settings{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		go e.Follow(t.Context())
		return e
	}
	storetest.FoundAtOnce(t, daemon(), daemon(), "")
	unknown := (*engine.UnknownFilterError)(nil)
	if _, err := daemon().Find(ctx, "never-made"); !errors.As(err, &unknown) {
		t.Errorf("a filter that nobody made: %v", err)
	}
}

// A question whether others have made a filter ends with its time, however long a change takes, or the reading
// of a large filter.
func TestQuestionsDoNotWaitForChanges(t *testing.T) {
	s, _ := opened(t, config(redistest.Start(t).Addr))
	s.changing.Lock()
	defer s.changing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.CatchUp(ctx); !errors.Is(err, engine.ErrUnavailable) {
		t.Error(err)
	}
}
