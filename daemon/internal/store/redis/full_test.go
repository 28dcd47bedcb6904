package redis

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// At its maxmemory Redis takes no new items, and says so; all else goes on: what is known is answered, items are
// forgotten and given back, daemons hear of each other, and a drop makes room.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	storeA, bloomA := opened(t, config(server.Addr))
	storeB, _ := opened(t, config(server.Addr))
	sets := []engine.Set{bloomA}
	dropped := []engine.Spec{
		{ID: 100, Name: "exact", Kind: "exact", Params: configs.Exact{}},
		{ID: 101, Name: "timing", Kind: "timing", Params: configs.Timing{Expire: time.Hour}},
		{ID: 102, Name: "prints", Kind: "bloom", Params: withFingerprints(1000).Params},
	}
	for _, spec := range dropped {
		set, err := storeA.Create(ctx, spec, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	held := map[engine.Set]engine.Reservation{}
	for _, set := range sets {
		storetest.Add(t, set, storetest.Keys(set, 0, 10))
		if r, ok := set.(engine.Reserving); ok {
			held[set] = engine.NewReservation()
			if _, err := r.Reserve(ctx, held[set], storetest.Keys(set, 50, 2), time.Hour, make([]bool, 2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	server.CLI("config", "set", "maxmemory", "1mb")

	for _, set := range sets {
		fresh := make([]bool, 3)
		if _, err := set.Add(ctx, storetest.Keys(set, 100, 3), fresh); !errors.Is(err, engine.ErrNoSpace) || errors.Is(err, engine.ErrInDoubt) {
			t.Errorf("%T: new items: got %v, want %v", set, err, engine.ErrNoSpace)
		}
		if n, err := set.Add(ctx, storetest.Keys(set, 0, 3), fresh); n != 0 || err != nil {
			t.Errorf("%T: known items: %d new, %v", set, n, err)
		}
		if err := set.Has(ctx, append(storetest.Keys(set, 5, 1), storetest.Keys(set, 100, 2)...), fresh); err != nil || fresh[0] || !fresh[1] || !fresh[2] {
			t.Errorf("%T: check: %v, %v", set, fresh, err)
		}
		if f, ok := set.(engine.Forgetful); ok {
			if n, err := f.Forget(ctx, storetest.Keys(set, 0, 2)); n != 2 || err != nil {
				t.Errorf("%T: forget: %d, %v", set, n, err)
			}
		}
		if r, ok := set.(engine.Reserving); ok {
			if _, err := r.Reserve(ctx, engine.NewReservation(), storetest.Keys(set, 60, 1), time.Hour, make([]bool, 1)); !errors.Is(err, engine.ErrNoSpace) {
				t.Errorf("%T: reserve: got %v, want %v", set, err, engine.ErrNoSpace)
			}
			if s, err := r.Release(ctx, held[set], storetest.Keys(set, 50, 2), make([]bool, 2)); s.Done != 2 || err != nil {
				t.Errorf("%T: release: %+v, %v", set, s, err)
			}
		}
	}
	for _, spec := range []engine.Spec{
		{ID: 200, Name: "more", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 1e-4, OnFull: "warn"}},
		{ID: 201, Name: "others", Kind: "exact", Params: configs.Exact{}},
	} {
		if _, err := storeA.Create(ctx, spec, storetest.Identity()); !errors.Is(err, engine.ErrNoSpace) {
			t.Errorf("%s is made: got %v, want %v", spec.Name, err, engine.ErrNoSpace)
		}
	}
	for _, s := range []*Store{storeA, storeB} {
		if err := s.members.Beat(ctx); err != nil {
			t.Errorf("heartbeat: %v", err)
		}
	}
	for _, spec := range dropped {
		if err := storeA.Drop(ctx, spec); err != nil {
			t.Errorf("%s is dropped: %v", spec.Name, err)
		}
	}
	if t.Failed() { // the wait would be long
		t.FailNow()
	}
	awaitRemoved(t, server, "urifilter:{10*")
	for _, s := range []*Store{storeA, storeB} {
		if err := s.Ready(ctx); err != nil {
			t.Error(err)
		}
	}
}
