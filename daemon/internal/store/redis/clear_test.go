package redis

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// daemon is a store with an engine over it, which follows the others.
type daemon struct {
	t *testing.T
	*engine.Engine
	store *Store
}

func startDaemon(t *testing.T, addr string, specs ...engine.Spec) *daemon {
	t.Helper()
	store, err := Open(t.Context(), config(addr))
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: specs, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { e.Follow(ctx) })
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		stop()
		work.Wait()
	})
	return &daemon{t, e, store}
}

// ask adds items as a caller would: if the filter is cleared meanwhile, it asks the new one.
func (d *daemon) ask(name string, from, n int) (fresh int) {
	f, err := d.Lookup(name)
	for {
		if err != nil {
			d.t.Errorf("%s: %v", name, err)
			return 0
		}
		was := f
		fresh, err = f.Add(context.Background(), storetest.Keys(f.Set, from, n), 0, make([]bool, n))
		var gone *engine.UnknownFilterError
		if err == nil || !errors.As(err, &gone) {
			if err != nil {
				d.t.Errorf("%s: %v", name, err)
			}
			return fresh
		}
		if f, err = d.Successor(context.Background(), f); err == nil && f.Life() != was.Life() {
			d.t.Errorf("%s: was dropped", name)
			return 0
		}
	}
}

// What another daemon has done to a filter, and what this one does before its engine has heard of that, end as the
// store has them: the filter neither comes back nor is lost.
func TestChangesThatWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	other := startDaemon(t, server.Addr, uri)
	for name, c := range map[string]struct {
		act   func(ctx context.Context, e *engine.Engine) error
		stays bool
	}{
		"drop": {func(ctx context.Context, e *engine.Engine) error { return e.Drop(ctx, uri.Name) }, false},
		"clear": {func(ctx context.Context, e *engine.Engine) error {
			_, err := e.Clear(ctx, uri.Name)
			return err
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ctx := t.Context()
			if _, _, err := other.Create(ctx, uri); err != nil {
				t.Fatal(err)
			}
			store, err := Open(ctx, config(server.Addr))
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			e, err := engine.Open(ctx, store, engine.Settings{Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := other.Clear(ctx, uri.Name); err != nil { // waits for the store, and not for the engine
				t.Fatal(err)
			}
			if err := c.act(ctx, e); err != nil {
				t.Fatal(err)
			}
			following, stop := context.WithCancel(ctx)
			var work sync.WaitGroup
			work.Go(func() { e.Follow(following) })
			defer func() { stop(); work.Wait() }()
			if err := store.CatchUp(ctx); err != nil {
				t.Fatal(err)
			}
			f, err := e.Lookup(uri.Name)
			if !c.stays {
				if !errors.As(err, new(*engine.UnknownFilterError)) {
					t.Errorf("a dropped filter: %v, %v", f, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if n, err := f.Add(ctx, storetest.Keys(f.Set, 0, 10), 0, make([]bool, 10)); n != 10 || err != nil {
				t.Errorf("%d of 10 items are new, %v", n, err)
			}
		})
	}
}

// Two daemons clear while callers of both ask: nobody is refused, nothing counts as lost, and
// items that are asked for after a clear, at either daemon, are new.
func TestClearOnTwoDaemons(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	times := engine.Spec{ID: 7, Name: "times", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}
	a := startDaemon(t, server.Addr, uri, times)
	b := startDaemon(t, server.Addr, uri, times)
	stop := make(chan struct{})
	var asking sync.WaitGroup
	for w, d := range []*daemon{a, b} {
		for _, name := range []string{uri.Name, times.Name} {
			asking.Go(func() {
				for i := 0; ; i++ {
					select {
					case <-stop:
						return
					default:
						d.ask(name, 1_000_000*(w+1)+i*20, 20)
						time.Sleep(between)
					}
				}
			})
		}
	}
	for round := range 3 {
		for i, d := range []*daemon{a, b} {
			other := []*daemon{b, a}[i]
			for _, name := range []string{uri.Name, times.Name} {
				d.ask(name, 0, 100)
				other.ask(name, 0, 100)
				if _, err := d.Clear(context.Background(), name); err != nil {
					t.Fatalf("round %d: clear %s: %v", round, name, err)
				}
				if n := other.ask(name, 0, 100); n != 100 {
					t.Errorf("round %d: after %s was cleared by another daemon %d of 100 items are new", round, name, n)
				}
				if n := d.ask(name, 0, 100); n != 0 {
					t.Errorf("round %d: %d of 100 items of %s are new at two daemons", round, n, name)
				}
			}
		}
	}
	var clearing sync.WaitGroup
	for _, d := range []*daemon{a, b} { // at once
		clearing.Go(func() {
			if _, err := d.Clear(context.Background(), uri.Name); err != nil {
				t.Errorf("clears at once: %v", err)
			}
		})
	}
	clearing.Wait()
	close(stop)
	asking.Wait()
	if n := a.ask(uri.Name, 0, 100) + b.ask(uri.Name, 0, 100); n != 100 {
		t.Errorf("after both had cleared %d of 100 items are new", n)
	}
	fa, _ := a.Lookup(uri.Name)
	fb, _ := b.Lookup(uri.Name)
	if fa.Set.(engine.BitMap).Header() != fb.Set.(engine.BitMap).Header() {
		t.Error("the daemons serve two bit-maps")
	}
}

// A daemon that is slow to follow a clear answers its callers from the cleared filter until it has
// followed: the keys stay for so long, but not for ever.
func TestClearWaitsForSlowFollowers(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, _ := opened(t, config(server.Addr))
	b, old := opened(t, config(server.Addr))
	meet(t, a, b)
	since := map[string]sighting{}
	clean := func(after time.Duration) (tombs int) {
		t.Helper()
		if err := a.cleanOnce(ctx, since, time.Now().Add(after)); err != nil {
			t.Fatal(err)
		}
		left, err := a.servers.Admin.HGetAll(ctx, registry.TombstonesKey).Result()
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	for _, stuck := range []bool{false, true} {
		b.changing.Lock() // it follows nothing
		follow := sync.OnceFunc(b.changing.Unlock)
		t.Cleanup(follow)
		cleared := make(chan error)
		go func() { cleared <- a.Clear(ctx, uri, identity(2), func(engine.Set) {}) }()
		for server.CLI("hvals", registry.TombstonesKey) != registry.Dropped {
			time.Sleep(time.Millisecond)
		}
		clean(0) // sees it for the first time
		if clean(2*tombWait) == 0 {
			t.Error("the keys are removed while a daemon needs them")
		}
		if !stuck {
			add(t, old, 0, 100)
		} else {
			for clean(2*members.ResyncTimeout) > 0 {
				time.Sleep(time.Millisecond)
			}
		}
		follow()
		if err := <-cleared; err != nil {
			t.Error(err)
		}
		for clean(2*tombWait) > 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// A Redis that restarts with data from before a clear does not undo the clear.
func TestClearOutlivesRedisGoingBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	add(t, s, 0, 100)
	server.CLI("save")
	var now engine.Set
	if err := store.Clear(ctx, uri, identity(2), func(set engine.Set) { now = set }); err != nil {
		t.Fatal(err)
	}
	add(t, now.(*bitmap.Set), 500, 100)
	server.Kill()
	server.Run()
	waitReady(t, store)
	if n := add(t, now.(*bitmap.Set), 500, 100); n != 0 {
		t.Errorf("%d of 100 items from after the clear are new again", n)
	}
	if n := add(t, now.(*bitmap.Set), 0, 100); n != 100 {
		t.Errorf("%d of 100 items from before the clear are new", n)
	}
}

func identity(generation uint64) engine.Identity {
	b := storetest.Identity()
	b.Generation = generation
	return b
}

// A batch that is still under way when another daemon clears or drops its filter keeps no other one from
// what has taken its place.
func TestSuccessorBesideABatch(t *testing.T) {
	for _, change := range []string{"clear", "drop"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			addr := redistest.Start(t).Addr
			spec := engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 1e-4, OnFull: "grow"}}
			here, there := startDaemon(t, addr, spec), startDaemon(t, addr, spec)
			f, err := here.Lookup("uri")
			if err != nil {
				t.Fatal(err)
			}
			batch := f.Set.(base.Filter).Base()
			if err := batch.Enter(); err != nil {
				t.Fatal(err)
			}
			var work sync.WaitGroup
			defer func() { batch.Use.RUnlock(); work.Wait() }()
			work.Go(func() {
				err := error(nil)
				if change == "clear" {
					_, err = there.Clear(t.Context(), "uri")
				} else {
					err = there.Drop(t.Context(), "uri")
				}
				if err != nil {
					t.Error(err)
				}
			})
			for !engine.Ended(f.Set) {
				time.Sleep(time.Millisecond)
			}
			now, err := here.Successor(t.Context(), f)
			if change == "clear" && (err != nil || now.Life() != f.Life()) || change == "drop" && !errors.As(err, new(*engine.UnknownFilterError)) {
				t.Errorf("the successor is %v, %v", now, err)
			}
		})
	}
}
