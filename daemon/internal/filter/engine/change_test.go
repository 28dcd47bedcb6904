package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// held is a shelf whose restores stop in the middle until they are released.
type held struct {
	*shelf
	begun chan string
	goOn  chan struct{}
}

func (h *held) Newest(ctx context.Context) ([]engine.Archived, error) {
	all, err := h.shelf.Newest(ctx)
	for i := range all {
		restore, name := all[i].Restore, all[i].Spec.Name
		all[i].Restore = func(ctx context.Context, into engine.Sink) error {
			h.begun <- name
			select {
			case <-h.goOn:
				return restore(ctx, into)
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
	return all, err
}

// A restore, which may take minutes, does not delay changes of other filters, gives the filter
// its intended id, and ends with the daemon.
func TestARestoreHoldsUpNobodyElse(t *testing.T) {
	a := &held{newShelf(), make(chan string), make(chan struct{})}
	b := open(t, t.TempDir(), engine.Settings{Filters: []engine.Spec{spec(1, "uri")}, Archive: a})
	b.reconcile()
	if err := errors.Join(a.put(spec(1000, "big"), header(t, 7, 1), 1, 2), a.put(spec(1050, "vast"), header(t, 8, 1), 3)); err != nil {
		t.Fatal(err)
	}
	type made struct {
		f   *engine.Filter
		err error
	}
	create := func(s engine.Spec) <-chan made {
		done := make(chan made, 1)
		go func() {
			f, _, err := b.Create(t.Context(), s)
			done <- made{f, err}
		}()
		return done
	}
	big := create(spec(0, "big"))
	if name := <-a.begun; name != "big" {
		t.Fatal(name)
	}
	again := create(spec(0, "big")) // waits, and finds it
	other, _, err := b.Create(t.Context(), spec(0, "other"))
	if err != nil || other.ID == 1000 {
		t.Fatalf("%+v, %v: want a filter of another id while one is being restored", other, err)
	}
	if _, _, err := b.Create(t.Context(), spec(1000, "thief")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("the id of a filter that is being restored: %v, want ErrConflict", err)
	}
	if err := b.Drop(t.Context(), "uri"); err != nil {
		t.Errorf("drop while another filter is being restored: %v", err)
	}
	a.goOn <- struct{}{}
	first, second := <-big, <-again
	if first.err != nil || second.err != nil || first.f != second.f || first.f.ID != 1000 {
		t.Errorf("%+v, %+v", first, second)
	}
	if n, err := first.f.Add(t.Context(), keys([]uint64{1, 2, 9}), 0, make([]bool, 3)); n != 1 || err != nil {
		t.Errorf("%d new, want 1; %v", n, err)
	}

	gone, cancel := context.WithCancel(t.Context())
	vast := create(spec(0, "vast"))
	<-a.begun
	cancel()
	if _, _, err := b.Create(gone, spec(0, "vast")); !errors.Is(err, context.Canceled) {
		t.Errorf("a caller that has gone waits: %v", err)
	}
	waits := create(spec(0, "vast"))
	b.Stop()
	for _, c := range []<-chan made{vast, waits} {
		if m := <-c; !errors.Is(m.err, engine.ErrStopping) {
			t.Errorf("the daemon stops, and a restore goes on: %+v", m)
		}
	}
	if err := b.Drop(t.Context(), "other"); !errors.Is(err, engine.ErrStopping) {
		t.Errorf("drop after the stop: %v", err)
	}
	if n := len(b.Filters()); n != 2 {
		t.Errorf("%d filters, want big and other", n)
	}
}
