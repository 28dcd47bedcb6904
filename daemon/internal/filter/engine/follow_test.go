package engine_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

// followed is a store of which a test tells the changes.
type followed struct {
	*embedded.Store
	changes chan engine.Change
}

func (s followed) Changes() <-chan engine.Change { return s.changes }

func (s followed) Create(ctx context.Context, spec engine.Spec, b engine.Identity) (engine.Set, error) {
	set, err := s.Store.Create(ctx, spec, b)
	return &ending{Set: set}, err
}

type ending struct {
	engine.Set
	ended bool
}

func (s *ending) Ended() bool { return s.ended }

// While this daemon clears a filter that another one has just cleared, there is a moment at which both former
// sets have ended and the engine has not got the new one: the filter is there all the same.
func TestFollowDuringAClear(t *testing.T) {
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	changes := make(chan engine.Change)
	e, err := engine.Open(t.Context(), followed{store, changes}, engine.Settings{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	f, _, err := e.Create(t.Context(), spec(1, "uri"))
	if err != nil {
		t.Fatal(err)
	}
	f.Set.(*ending).ended = true
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { e.Follow(ctx) })
	changes <- engine.Change{Spec: f.Spec, Gone: f.Set, Set: &ending{ended: true}}
	taken := make(chan struct{})
	changes <- engine.Change{Taken: taken}
	<-taken
	if _, err := e.Lookup("uri"); err != nil {
		t.Error(err)
	}
}
