package mysql

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

func TestFiltersOfOthersAreFoundAtOnce(t *testing.T) {
	t.Parallel()
	c := config(mysqltest.Start(t))
	daemon := func() *engine.Engine {
		t.Helper()
		s, err := Open(context.Background(), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		e, err := engine.Open(context.Background(), s, engine.Settings{Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		go e.Follow(t.Context())
		return e
	}
	storetest.FoundAtOnce(t, daemon(), daemon(), Name)
}

// A question whether others have made a filter ends with its time, however long a change of this daemon takes,
// such as the drop of a large table.
func TestQuestionsDoNotWaitForChanges(t *testing.T) {
	s, _ := opened(t, config(mysqltest.Start(t)))
	s.changing.Lock()
	defer s.changing.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if err := s.CatchUp(ctx); !errors.Is(err, engine.ErrUnavailable) {
		t.Error(err)
	}
}
