package embedded

import (
	"context"
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// A process that ends while it fills a filter leaves nothing of the filter; one that ends later
// leaves all of it.
func TestCreateFilledIsWholeOrNothing(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	store, err := Open(options(dir))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	h := storetest.Header(uri)
	data := make([]byte, h.StripeSize(0))
	data[100] = 7
	broken := errors.New("broken")
	var during string
	fill := func(result error) func(context.Context, engine.Sink) error {
		return func(ctx context.Context, into engine.Sink) error {
			if into.Header() != h {
				t.Errorf("header %+v, want %+v", into.Header(), h)
			}
			if err := errors.Join(into.MergeStripe(ctx, 0, data), into.Commit(ctx)); err != nil {
				return err
			}
			during = crash(t, dir)
			return result
		}
	}
	if _, err := store.CreateFilled(ctx, uri, h, fill(broken)); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	if _, err := store.CreateFilled(ctx, uri, h, fill(nil)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]int{during: 0, crash(t, dir): 1} {
		other, err := Open(options(path))
		if err != nil {
			t.Fatal(err)
		}
		sets, err := other.Load(ctx)
		if err != nil || len(sets) != want {
			t.Fatalf("got %d filters, %v, want %d", len(sets), err, want)
		}
		if want == 1 {
			got, err := sets[uri].(*set).Stripe(ctx, 0, make([]byte, bloom.StripeBytes))
			if err != nil || got[100] != 7 || sets[uri].(*set).Header() != h {
				t.Errorf("bits were lost: %v", err)
			}
		}
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	}
}
