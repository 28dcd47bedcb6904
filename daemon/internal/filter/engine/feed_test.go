package engine_test

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// An engine that begins late to follow a store gets every change, in order.
func TestFeed(t *testing.T) {
	t.Parallel()
	feed := engine.NewFeed()
	for round := range 3 {
		for id := range 1000 {
			feed.Send(engine.Change{Spec: engine.Spec{ID: id}})
		}
		for id := range 1000 {
			if got := <-feed.Changes(); got.Spec.ID != id {
				t.Fatalf("round %d: change %d is of filter %d", round, id, got.Spec.ID)
			}
		}
	}
	feed.Send(engine.Change{})
	feed.Send(engine.Change{})
	feed.Close() // nobody receives them
}
