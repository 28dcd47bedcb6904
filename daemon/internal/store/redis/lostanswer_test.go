package redis

import (
	"context"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// A cluster's client sends a change again whose answer was lost. The second time it finds what it has done itself: a
// filter is made then, and other daemons are waited for as after the first time.
func TestChangesThatAreSentTwice(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	store, _ := opened(t, config(redistest.Start(t).Addr))
	r := store.registry
	made := func(generation uint64) (registry.Entry, string) {
		t.Helper()
		b := storetest.Identity()
		b.Generation = generation
		e, err := registry.NewEntry(engine.Spec{ID: 100, Name: "twice", Kind: "exact", Params: configs.Exact{}}, b)
		if err != nil {
			t.Fatal(err)
		}
		tomb, err := r.BeginMaking(ctx, e)
		if err != nil {
			t.Fatal(err)
		}
		return e, tomb
	}
	first, tomb := made(1)
	for range 2 {
		if got, err := r.Register(ctx, first, tomb); err != nil || got != first {
			t.Errorf("register: %+v, %v", got, err)
		}
	}
	second, tomb := made(2)
	last := int64(0)
	after := func(what string, version int64, err error) {
		t.Helper()
		if err != nil || version < 1 || version < last {
			t.Errorf("%s: version %d after %d, %v", what, version, last, err)
		}
		last = version
	}
	for range 2 {
		got, version, err := r.Supersede(ctx, first, second, tomb)
		if after("clear", version, err); got != second {
			t.Errorf("clear: %+v", got)
		}
	}
	for range 2 {
		version, err := r.Unregister(ctx, second.Spec)
		after("drop", version, err)
	}
	if last != 2 {
		t.Errorf("version %d after a clear and a drop", last)
	}
}
