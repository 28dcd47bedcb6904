package joined

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	mysqlstore "github.com/cr-clawer/urifilter/daemon/internal/store/mysql"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mysqltest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

func openMain(t *testing.T) Main {
	t.Helper()
	main, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "always", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return main
}

// opened returns an engine on an embedded store of its own, beside the MariaDB.
func opened(t *testing.T, o mysqlstore.Options, want ...engine.Spec) (*engine.Engine, *Store, *testserver.Log) {
	t.Helper()
	said := &testserver.Log{}
	logger := slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelWarn}))
	beside, err := mysqlstore.Open(context.Background(), mysqlstore.Config{Options: o, Log: slog.New(slog.DiscardHandler), Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	s := Join(openMain(t), beside, logger)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := engine.Open(context.Background(), s, engine.Settings{Filters: want, Log: logger})
	if err != nil {
		t.Fatal(err)
	}
	return e, s, said
}

func spec(id int, name string, store string) engine.Spec {
	return engine.Spec{ID: id, Name: name, Kind: "exact", Params: configs.Exact{Store: store}}
}

func create(t *testing.T, e *engine.Engine, s engine.Spec) *engine.Filter {
	t.Helper()
	f, _, err := e.Create(context.Background(), s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Each filter is in the store that it names, ids are unique across all stores, and a filter that
// clashes with one of the daemon's own is not served in its place.
func TestTwoStores(t *testing.T) {
	ctx := context.Background()
	server := mysqltest.Start(t)
	name := server.Database("select, insert, update, delete, create, drop")
	o := mysqlstore.Options{Addr: server.Addr, User: name, Password: mysqltest.Password, Database: name}
	a, s, said := opened(t, o, spec(1, "own", ""), spec(2, "shared", "mysql"))
	if err := s.Ready(ctx); err != nil {
		t.Error(err)
	}
	for filter, beside := range map[string]bool{"own": false, "shared": true} {
		f, err := a.Lookup(filter)
		if err != nil {
			t.Fatal(err)
		}
		if _, is := f.Set.(*mysqlstore.Set); is != beside {
			t.Errorf("%s: is in MariaDB: %v", filter, is)
		}
		storetest.Add(t, f.Set, storetest.Keys(f.Set, 0, 10))
		if f, err = a.Clear(ctx, filter); err != nil || f.Stats().Items != 0 || f.Stats().Generation != 2 {
			t.Errorf("%s cleared: %+v, %v", filter, f.Stats(), err)
		}
	}
	// Two daemons whose own stores know nothing of each other assign no id twice.
	b, _, _ := opened(t, o)
	ids := map[int]string{}
	for _, f := range []*engine.Filter{
		create(t, a, spec(0, "a-one", "")), create(t, b, spec(0, "b-one", "")), create(t, b, spec(0, "b-two", "mysql")),
		create(t, a, spec(0, "a-two", "mysql")), create(t, b, spec(0, "b-three", "")),
	} {
		if ids[f.ID] != "" {
			t.Errorf("%s has the id of %s", f.Name, ids[f.ID])
		}
		ids[f.ID] = f.Name
	}
	// Of two filters with one name, or one id, the daemon's own is served.
	go a.Follow(t.Context())
	create(t, b, spec(1, "another", "mysql"))
	create(t, b, spec(0, "own", "mysql"))
	testserver.Await(t, "the log says that two filters are not served", func() bool { return strings.Count(said.String(), "filter is NOT served") >= 2 }, said)
	if f, err := a.Lookup("own"); err != nil || f.KeptIn() != "" {
		t.Errorf("own: %v, %v", f, err)
	}
	for _, filter := range []string{"own", "shared"} {
		if err := a.Drop(ctx, filter); err != nil {
			t.Error(err)
		}
	}
}

// The same beside Redis: a filter that one daemon makes in either store is served by another one.
func TestBesideRedis(t *testing.T) {
	ctx := context.Background()
	server, cache := mysqltest.Start(t), redistest.Start(t)
	name := server.Database("select, insert, update, delete, create, drop")
	logger := slog.New(slog.DiscardHandler)
	daemon := func() *engine.Engine {
		t.Helper()
		main, err := redisstore.Open(ctx, redisstore.Config{Options: redisstore.Options{Addrs: []string{cache.Addr}, Timeout: time.Minute}, Log: logger})
		if err != nil {
			t.Fatal(err)
		}
		beside, err := mysqlstore.Open(ctx, mysqlstore.Config{Options: mysqlstore.Options{Addr: server.Addr, User: name, Password: mysqltest.Password, Database: name}, Log: logger})
		if err != nil {
			t.Fatal(err)
		}
		s := Join(main, beside, logger)
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		e, err := engine.Open(ctx, s, engine.Settings{Log: logger})
		if err != nil {
			t.Fatal(err)
		}
		go e.Follow(t.Context())
		return e
	}
	a, b := daemon(), daemon()
	for _, made := range []engine.Spec{spec(0, "redis", ""), spec(0, "maria", "mysql")} {
		f := create(t, a, made)
		storetest.Add(t, f.Set, storetest.Keys(f.Set, 0, 10))
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			if g, err := b.Lookup(made.Name); err == nil {
				if got := slices.Contains(storetest.Add(t, g.Set, storetest.Keys(g.Set, 0, 10)), true); got || g.Spec != f.Spec {
					t.Errorf("%s: an item is new for both daemons: %v; %+v", made.Name, got, g.Spec)
				}
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: the other daemon does not serve it", made.Name)
			}
		}
	}
}

// Without another store, a filter that names one is refused, and other filters are not affected.
func TestNoneBeside(t *testing.T) {
	s := Join(openMain(t), nil, slog.New(slog.DiscardHandler))
	defer s.Close()
	e, err := engine.Open(context.Background(), s, engine.Settings{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	create(t, e, spec(0, "own", ""))
	var wrong *engine.SpecError
	if _, _, err := e.Create(context.Background(), spec(0, "other", "mysql")); !errors.As(err, &wrong) || wrong.Field != "store" {
		t.Errorf("%v, want an error of its store", err)
	}
	if s.Changes() != nil {
		t.Error("somebody else can change it")
	}
}

// announcing is a store beside that only tells of changes, and in which another daemon is quicker.
type announcing struct {
	Beside
	changes chan engine.Change
	quicker func(engine.Spec)
}

func (a announcing) Create(_ context.Context, spec engine.Spec, _ engine.Identity) (engine.Set, error) {
	a.quicker(spec)
	return nil, engine.ErrConflict
}

func (a announcing) Changes() <-chan engine.Change { return a.changes }
func (a announcing) Close() error                  { return nil }

// A filter is not made in one store while the engine has yet to hear of one of its name or id in the other:
// after a start it would be served in the place of that one.
func TestNothingIsMadeThatClashes(t *testing.T) {
	ctx := context.Background()
	main, beside := openMain(t), announcing{changes: make(chan engine.Change)}
	s := Join(main, beside, slog.New(slog.DiscardHandler))
	defer s.Close()
	gone, set := &mysqlstore.Set{}, &mysqlstore.Set{}
	beside.changes <- engine.Change{Spec: spec(1001, "shared", "mysql"), Set: gone}
	if change := <-s.Changes(); change.Set != gone {
		t.Fatalf("got %+v", change)
	}
	for _, clash := range []engine.Spec{spec(1002, "shared", ""), spec(1001, "own", "")} {
		if _, err := s.Create(ctx, clash, storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("%s, id %d: %v, want ErrConflict", clash.Name, clash.ID, err)
		}
	}
	if made, err := main.Load(ctx); err != nil || len(made) != 0 {
		t.Errorf("made all the same: %v, %v", made, err)
	}
	if _, err := s.Create(ctx, spec(7, "own", ""), storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	// Another daemon, which does not know of the own one, drops the shared one and makes it again.
	beside.changes <- engine.Change{Spec: spec(7, "shared", "mysql"), Set: set, Gone: gone}
	if change := <-s.Changes(); change.Set != nil || change.Gone != gone {
		t.Errorf("got %+v, want that the first one is gone", change)
	}
}

// A filter that another daemon was quicker to make is served, though this one did not make it.
func TestQuickerDaemonsFilterIsKnown(t *testing.T) {
	ctx := context.Background()
	var s *Store
	changes := make(chan engine.Change)
	beside := announcing{changes: changes, quicker: func(spec engine.Spec) {
		changes <- engine.Change{Spec: spec, Set: &mysqlstore.Set{}}
		<-s.Changes()
	}}
	s = Join(openMain(t), beside, slog.New(slog.DiscardHandler))
	defer s.Close()
	for _, clash := range []string{"mysql", ""} {
		if _, err := s.Create(ctx, spec(1001, "shared", clash), storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("in store %q: %v, want ErrConflict", clash, err)
		}
	}
}
