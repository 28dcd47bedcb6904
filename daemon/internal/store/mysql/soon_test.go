package mysql

import (
	"context"
	"log/slog"
	"testing"

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
