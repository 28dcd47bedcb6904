package redis

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// config returns the configuration of a daemon that treats an empty Redis as new at once, as
// others are known to have started before, or not to run at all. A busy machine does not make
// others count as dead; a test that waits for a death sets members.PeerDead.
func config(addrs ...string) Config {
	return Config{
		Options:  Options{Addrs: addrs, Timeout: time.Minute},
		Log:      slog.New(slog.DiscardHandler),
		newcomer: time.Nanosecond,
		peerDead: time.Minute,
	}
}

// refused is how long callers wait after a refusal while Redis is away. Else they would ask all the time.
const refused = 5 * time.Millisecond

// between is how long callers wait between batches if they ask until something else is done.
const between = 2 * time.Millisecond

// tiny is less than any filter's bits: mirrors keep almost nothing.
const tiny = 1 << 10

// The suite runs on one server and on a cluster, with mirrors that are whole and that have almost
// nothing. Two combinations cover everything for the race detector, and large filters. A third
// one runs in addition.
func TestConformance(t *testing.T) { conforms(t, storetest.Run, "small mirror", "cluster") }
func TestNoRaceConformance(t *testing.T) {
	t.Parallel()
	t.Run("large", func(t *testing.T) { conforms(t, storetest.RunLarge, "small mirror", "cluster") })
	t.Run("whole mirror", func(t *testing.T) { conforms(t, storetest.Run, "standalone") })
}

func conforms(t *testing.T, run func(*testing.T, func(*testing.T) storetest.Opener), where ...string) {
	t.Parallel()
	opener := func(c Config) storetest.Opener {
		return storetest.Opener{
			Open:      func() (engine.Store, error) { return Open(context.Background(), c) },
			Elsewhere: true, HighBits: map[string]int{"exact": 12}, Bounded: c.MirrorBytes == tiny,
		}
	}
	standalone := func(t *testing.T, mirror uint64) func(*testing.T) storetest.Opener {
		server := redistest.Start(t, "--databases", "1000")
		server.CLI(documentedUser(t)...)
		var tests atomic.Int64
		return func(*testing.T) storetest.Opener {
			c := config(server.Addr)
			c.Username, c.Password = "documented", "secret"
			c.DB = int(tests.Add(1)) // not shared
			c.MirrorBytes = mirror
			return opener(c)
		}
	}
	for _, name := range where {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch name {
			case "standalone":
				run(t, standalone(t, 0))
			case "small mirror":
				run(t, standalone(t, tiny))
			case "cluster":
				clusters := redistest.NewPool(t, 2, func(t testing.TB) []*redistest.Server { return redistest.Cluster(t, nil) })
				run(t, func(t *testing.T) storetest.Opener { return opener(config(clusters.Take(t)[1].Addr)) })
			}
		})
	}
}

// documentedUser is the command that makes a user who may what docs/redis.md asks for.
func documentedUser(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "A user with an ACL needs `~urifilter:*` and the commands ")
	list, _, ok := strings.Cut(list, ", with `redis.replicas`")
	if !ok {
		t.Fatal("docs/redis.md lists no commands")
	}
	user := []string{"acl", "setuser", "documented", "on", ">secret", "~urifilter:*", "+select"}
	for name := range strings.FieldsFuncSeq(list, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' }) {
		user = append(user, "+"+strings.ToLower(name))
	}
	return user
}

var uri = engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 3_000_000, ErrorRate: 1e-4, OnFull: "warn"}}

// opened opens a store with the filter uri, made if missing; prepare may change the store before
// it loads.
func opened(t testing.TB, c Config, prepare ...func(*Store)) (*Store, *bitmap.Set) {
	t.Helper()
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	for _, f := range prepare {
		f(store)
	}
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if found := sets[uri]; found != nil {
		return store, found.(*bitmap.Set)
	}
	made, err := store.Create(context.Background(), uri, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	return store, made.(*bitmap.Set)
}

// add returns how many items of a batch are new.
func add(t testing.TB, s *bitmap.Set, from, n int) int {
	t.Helper()
	got, err := s.Add(context.Background(), storetest.Keys(s, from, n), make([]bool, n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// meet waits until each of the stores has seen the others' heartbeats.
func meet(t testing.TB, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		for _, other := range stores {
			testserver.Await(t, "the daemons see each other", func() bool { return s == other || slices.Contains(s.members.Alive(), other.members.Self) })
		}
	}
}

func waitReady(t testing.TB, stores ...*Store) {
	t.Helper()
	for _, s := range stores {
		testserver.AwaitNil(t, "ready", func() error { return s.Ready(context.Background()) })
	}
}

// Two daemons, many callers, overlapping items: each item is new for one caller.
func exactlyOnce(t *testing.T, c Config) {
	t.Helper()
	_, a := opened(t, c)
	_, b := opened(t, c)
	if a.Seed() != b.Seed() {
		t.Fatal("the two daemons hash with different seeds")
	}
	const callers, items, batch = 8, 2000, 50
	wins := make([]int, items)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for caller := range callers {
		s := []*bitmap.Set{a, b}[caller%2]
		wg.Go(func() {
			for i := range items / batch {
				from := (i + caller) * batch % items
				isNew := make([]bool, batch)
				if _, err := s.Add(context.Background(), storetest.Keys(s, from, batch), isNew); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for k, is := range isNew {
					if is {
						wins[from+k]++
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	never := 0
	for i, won := range wins {
		if won > 1 {
			t.Fatalf("item %d was new %d times", i, won)
		}
		if won == 0 {
			never++ // a false positive
		}
	}
	if never > items/1000 {
		t.Errorf("%d of %d items were new for nobody", never, items)
	}
}

func TestExactlyOnceForTwoDaemons(t *testing.T) {
	t.Parallel()
	t.Run("standalone", func(t *testing.T) { exactlyOnce(t, config(redistest.Start(t).Addr)) })
	t.Run("cluster", func(t *testing.T) { exactlyOnce(t, config(redistest.Cluster(t, nil)[0].Addr)) })
	t.Run("small mirror", func(t *testing.T) {
		c := config(redistest.Start(t).Addr)
		c.MirrorBytes = tiny
		exactlyOnce(t, c)
	})
}

// What Redis has lost and no mirror has does not fill the filter any more, however busy it is.
func TestLostBitsDoNotCount(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := config(server.Addr)
	c.MirrorBytes = tiny
	store, set := opened(t, c)
	waitReady(t, store)
	add(t, set, 0, 20_000)
	if got := set.Stats().Items; got < 19_000 {
		t.Fatalf("about %d items, want 20,000", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan struct{}, 1)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for keys := storetest.Keys(set, 0, 1000); ctx.Err() == nil; {
				if _, err := set.Add(ctx, keys, make([]bool, len(keys))); err != nil {
					select {
					case failed <- struct{}{}:
					default:
					}
					time.Sleep(between)
				}
			}
		})
	}
	server.CLI("flushall")
	<-failed
	waitReady(t, store)
	if got := set.Stats().Items; got > 2000 {
		t.Errorf("about %d items, where a thousand may be there", got)
	}
	cancel()
	callers.Wait()
}

// Redis is killed and comes back empty, or with an older file, or is flushed: once the
// daemons are ready again, each knows what either of them had acknowledged.
func TestResync(t *testing.T) { resync(t, 1000, 0) }

// The same with a mirror that has only the recently acknowledged part of the filter.
func TestResyncFromPartialMirrors(t *testing.T) { resync(t, 2000, 4<<20) }

func resync(t *testing.T, each int, mirror uint64) {
	t.Parallel()
	config := func(addr string) Config {
		c := config(addr)
		c.MirrorBytes = mirror
		return c
	}
	for name, lose := range map[string]func(*redistest.Server, *bitmap.Set){
		"restarted empty": func(s *redistest.Server, _ *bitmap.Set) { s.Kill(); s.Run() },
		"away for a while": func(s *redistest.Server, _ *bitmap.Set) {
			s.Kill()
			time.Sleep(2500 * time.Millisecond)
			s.Run()
		},
		"flushed":                  func(s *redistest.Server, _ *bitmap.Set) { s.CLI("flushall") },
		"flushed, then restarted":  func(s *redistest.Server, _ *bitmap.Set) { s.CLI("flushall"); s.Kill(); s.Run() },
		"a stripe deleted":         func(s *redistest.Server, a *bitmap.Set) { s.CLI("del", a.StripeKeys()[0]) },
		"its registry is gone too": func(s *redistest.Server, a *bitmap.Set) { s.CLI("del", registry.Key, a.StripeKeys()[1]) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storeA, a := opened(t, config(server.Addr))
			storeB, b := opened(t, config(server.Addr))
			waitReady(t, storeA, storeB)
			meet(t, storeA, storeB)
			add(t, a, 0, each)
			add(t, b, each, each)
			lose(server, a)
			// A caller that keeps asking gets errors, never a wrong answer.
			for _, s := range []*bitmap.Set{a, b, a, b} {
				other := each
				if s == b {
					other = 0
				}
				keys, isNew := storetest.Keys(s, other, each), make([]bool, each)
				for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
					n, err := s.Add(context.Background(), keys, isNew)
					if err == nil {
						if n != 0 {
							t.Fatalf("%d acknowledged items are new again at the other daemon", n)
						}
						break
					}
					if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
						t.Fatalf("got %v, want ErrUnavailable or ErrInDoubt", err)
					}
					if time.Now().After(deadline) {
						t.Fatalf("not resynced: %v", err)
					}
				}
			}
			waitReady(t, storeA, storeB)
			// A daemon that starts now finds everything in Redis.
			_, c := opened(t, config(server.Addr))
			if n := add(t, c, 0, 2*each); n != 0 {
				t.Errorf("%d acknowledged items are new for a third daemon", n)
			}
			if n := add(t, c, 20_000, 1000); n < 990 {
				t.Errorf("%d of 1000 new items are new", n)
			}
		})
	}
}

func TestResyncFromAnOlderFile(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	storeA, a := opened(t, config(server.Addr))
	storeB, b := opened(t, config(server.Addr))
	meet(t, storeA, storeB)
	add(t, a, 0, 1000)
	old := filepath.Join(t.TempDir(), "old")
	if err := os.CopyFS(old, os.DirFS(server.Dir)); err != nil {
		t.Fatal(err)
	}
	add(t, a, 1000, 2000)
	add(t, b, 3000, 2000)
	server.Kill()
	if err := os.RemoveAll(filepath.Join(server.Dir, "appendonlydir")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(server.Dir, "appendonlydir"), os.DirFS(filepath.Join(old, "appendonlydir"))); err != nil {
		t.Fatal(err)
	}
	server.Run()
	waitReady(t, storeA, storeB)
	for name, s := range map[string]*bitmap.Set{"a": a, "b": b} {
		if n := add(t, s, 0, 5000); n != 0 {
			t.Errorf("%d acknowledged items are new again at %s", n, name)
		}
	}
	_, c := opened(t, config(server.Addr))
	if n := add(t, c, 0, 5000); n != 0 {
		t.Errorf("%d acknowledged items are new again at a third", n)
	}
}

// The archive is used when Redis has lost a filter that no live daemon knows whole.
func TestResyncAsksTheArchive(t *testing.T) {
	for name, mirror := range map[string]uint64{"whole mirror": 0, "partial mirror": 4 << 20} {
		t.Run(name, func(t *testing.T) { resyncAsksTheArchive(t, mirror) })
	}
}

func resyncAsksTheArchive(t *testing.T, mirror uint64) {
	t.Parallel()
	config := func(addr string) Config {
		c := config(addr)
		c.MirrorBytes = mirror
		return c
	}
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	var archive [][]byte
	restore := func(ctx context.Context, spec engine.Spec, s engine.BitMap) error {
		for i, data := range archive {
			if err := s.MergeStripe(ctx, i, data); err != nil {
				return err
			}
		}
		return nil
	}
	other, err := bloom.New(s.Header()) // a daemon that ended long ago had acknowledged these
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	other.Add(storetest.Keys(s, 50_000, 1000), make([]bool, 1000))
	for i := range s.Header().Stripes() {
		archive = append(archive, other.Stripe(i, make([]byte, bloom.StripeBytes)))
	}
	add(t, s, 0, 1000)
	_ = store.Close()
	store, err = Open(context.Background(), config(server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	store.RestoreWith(restore)
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	s = sets[uri].(*bitmap.Set)
	if n := add(t, s, 0, 1000); n != 0 { // so that a partial mirror has them too
		t.Errorf("%d items are new again after a restart", n)
	}
	server.Kill()
	server.Run()
	waitReady(t, store)
	if n := add(t, s, 50_000, 1000) + add(t, s, 0, 1000); n != 0 {
		t.Errorf("%d items of archive and mirror are new again", n)
	}
}

func TestFiltersOfOtherDaemonsAreFollowed(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	storeA, a := opened(t, config(server.Addr))
	storeB, _ := opened(t, config(server.Addr))
	holds := func(want bool) {
		t.Helper()
		if got, err := storeB.Holds(context.Background(), uri); got != want || err != nil {
			t.Errorf("Holds: got %v, %v, want %v", got, err, want)
		}
	}
	made := engine.Spec{ID: 9, Name: "extra", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}}
	if _, err := storeA.Create(context.Background(), made, storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	next := func() engine.Change {
		t.Helper()
		select {
		case change := <-storeB.Changes():
			return change
		case <-time.After(2 * time.Minute):
			t.Fatal("no change is seen")
			return engine.Change{}
		}
	}
	if change := next(); change.Spec != made || change.Set == nil {
		t.Fatalf("got %+v, want the new filter", change)
	}
	for _, other := range []engine.Spec{
		{ID: 10, Name: "extra", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}},
		{ID: 9, Name: "other", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}},
	} {
		if _, err := storeB.Create(context.Background(), other, storetest.Identity()); !errors.Is(err, engine.ErrConflict) {
			t.Errorf("create %+v: %v, want ErrConflict", other, err)
		}
	}
	add(t, a, 0, 100)
	holds(true)
	if err := storeA.Drop(context.Background(), uri); err != nil {
		t.Fatal(err)
	}
	holds(false) // whether or not it knows of the drop
	if change := next(); change.Spec != uri || change.Set != nil {
		t.Fatalf("got %+v, want uri dropped", change)
	}
	again, err := storeB.Create(context.Background(), uri, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if n := add(t, again.(*bitmap.Set), 0, 100); n != 100 {
		t.Errorf("made again: %d of 100 are new", n)
	}
}

// mustFail requires an error, but not that of a time limit.
func mustFail(t *testing.T, c Config, wants ...string) {
	t.Helper()
	c.Timeout = time.Hour
	start := time.Now()
	store, err := Open(context.Background(), c)
	if err == nil {
		_, err = store.Load(context.Background())
		_ = store.Close()
	}
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range wants {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in: %v", want, err)
		}
	}
	if took := time.Since(start); took > 2*time.Minute {
		t.Errorf("took %v", took)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	t.Run("evicting policy", func(t *testing.T) {
		s := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
		mustFail(t, config(s.Addr), "allkeys-lru", "CONFIG SET maxmemory-policy noeviction")
	})
	t.Run("answers before it syncs", func(t *testing.T) {
		s := redistest.Start(t, "--appendonly", "yes")
		c := config(s.Addr)
		c.Fsync = true
		mustFail(t, c, "appendfsync", "everysec", "CONFIG SET appendfsync always")
		s.CLI("config", "set", "appendfsync", "always")
		store, _ := opened(t, c)
		s.CLI("config", "set", "appendonly", "no")
		if _, err := store.servers.RunIDs(context.Background()); err == nil || !strings.Contains(err.Error(), "CONFIG SET appendonly yes") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("password missing", func(t *testing.T) {
		s := redistest.Start(t, "--requirepass", "secret")
		mustFail(t, config(s.Addr), "NOAUTH", "redis.password_file")
		c := config(s.Addr)
		c.Password = "wrong"
		mustFail(t, c, "WRONGPASS", "redis.password_file")
		c.Password = "secret"
		opened(t, c)
	})
	t.Run("nobody there", func(t *testing.T) {
		s := redistest.Start(t)
		s.Kill()
		mustFail(t, config(s.Addr), s.Addr, "is Redis running there")
	})
	t.Run("not redis", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = conn.Write([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))
				_ = conn.Close()
			}
		}()
		mustFail(t, config(l.Addr().String()), l.Addr().String(), "hint:")
	})
	t.Run("foreign registry", func(t *testing.T) {
		s := redistest.Start(t)
		s.CLI("set", registry.Key, "mine")
		mustFail(t, config(s.Addr), registry.Key, "another program", "hint:")
	})
	t.Run("newer format", func(t *testing.T) {
		s := redistest.Start(t)
		s.CLI("hset", registry.Key, registry.FormatField, "2")
		mustFail(t, config(s.Addr), registry.Key, "format", "hint:")
	})
	t.Run("several addresses, no cluster", func(t *testing.T) {
		a, b := redistest.Start(t), redistest.Start(t)
		mustFail(t, config(a.Addr, b.Addr), "is not a cluster", "redis.master_name")
	})
}

// A bit-map larger than the largest Redis string is spread over several.
func TestBeyond512MB(t *testing.T) {
	if testing.Short() {
		t.Skip("it needs 0.7 GB of memory")
	}
	large := uri
	large.Params = configs.Bloom{Capacity: 200_000_000, ErrorRate: 1e-4, OnFull: "warn"}
	server := redistest.Start(t)
	c := config(server.Addr)
	c.Timeout = 5 * time.Minute // Redis clears 0.6 GB of memory in one command: on a busy machine that takes its time
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	made, err := store.Create(context.Background(), large, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	s := made.(*bitmap.Set)
	if got := s.Header().Bytes(); got <= 512<<20 {
		t.Fatalf("a bit-map of %d bytes is not what this test is for", got)
	}
	for _, want := range []int{5000, 0} {
		if n := add(t, s, 0, 5000); n != want {
			t.Errorf("%d of 5000 are new, want %d", n, want)
		}
	}
	for last := false; !last; {
		if last, err = s.CountNext(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	if items := s.Stats().Items; items < 4950 || items > 5050 {
		t.Errorf("Redis counts about %d items, want 5000", items)
	}
}

// A filter that is created with bits appears complete, or not at all.
func TestCreateFilled(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	open := func() *Store {
		t.Helper()
		s, err := Open(ctx, config(server.Addr))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() })
		if _, err := s.Load(ctx); err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b := open(), open()
	h := storetest.Header(uri)
	source, err := bloom.New(h)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	fillUpTo := func(stripes int) func(context.Context, engine.Sink) error {
		return func(ctx context.Context, sink engine.Sink) error {
			for i := range h.Stripes() {
				if i == stripes {
					return errors.New("the archive broke off")
				}
				if err := sink.MergeStripe(ctx, i, source.Stripe(i, make([]byte, bloom.StripeBytes))); err != nil {
					return err
				}
			}
			return sink.Commit(ctx)
		}
	}
	if _, err := a.CreateFilled(ctx, uri, h, fillUpTo(2)); err == nil || !strings.Contains(err.Error(), "broke off") {
		t.Fatalf("got %v, want fill's error", err)
	}
	if got := server.CLI("hget", registry.Key, uri.Name); got != "" {
		t.Fatalf("a filter filled in part is registered: %s", got)
	}
	keys := make([]bloom.Hash, 2000)
	for i := range keys {
		keys[i] = bloom.Sum(h.Seed, []byte{byte(i), byte(i >> 8)})
	}
	source.Add(keys, make([]bool, len(keys)))
	var wg sync.WaitGroup
	for _, s := range []*Store{a, b} { // both at once
		wg.Go(func() {
			made, err := s.CreateFilled(ctx, uri, h, fillUpTo(-1))
			if err != nil {
				t.Error(err)
				return
			}
			n, err := made.Add(ctx, keys, make([]bool, len(keys)))
			if err != nil || n != 0 {
				t.Errorf("%d of %d items are new, %v", n, len(keys), err)
			}
		})
	}
	wg.Wait()
}

// A sentinel fails over to a replica: the store follows, and resyncs what the replica had
// not received.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	sentinel, master, replica := redistest.Sentinels(t, nil)
	c := config(sentinel.Addr)
	c.MasterName = "mymaster"
	_, s := opened(t, c)
	add(t, s, 0, 3000)
	// The replica gets no copy when it follows again.
	master.CLI("config", "set", "repl-diskless-sync", "yes")
	master.CLI("config", "set", "repl-diskless-sync-delay", "3600")
	replica.CLI("replicaof", "no", "one") // cut off: it does not receive what follows
	add(t, s, 3000, 3000)
	replica.CLI("replicaof", "127.0.0.1", strings.TrimPrefix(master.Addr, "127.0.0.1:"))
	whole := master.CLI("bitcount", s.StripeKeys()[0])
	redistest.FailOver(sentinel, master)
	if got := replica.CLI("bitcount", s.StripeKeys()[0]); got == whole {
		t.Fatal("the replica has missed nothing: this tries nothing")
	}
	// Trust is lost at once or at the next poll, and comes back with the new master.
	testserver.Await(t, "a failover", func() bool {
		_, err := s.Add(context.Background(), storetest.Keys(s, 100_000, 1), make([]bool, 1))
		return err == nil && strings.Contains(replica.CLI("info", "replication"), "role:master")
	})
	if n := add(t, s, 0, 6000); n != 0 {
		t.Errorf("%d acknowledged items are new again after the failover", n)
	}
	_, other := opened(t, c)
	if n := add(t, other, 0, 6000); n != 0 {
		t.Errorf("%d acknowledged items are new for a daemon that starts after the failover", n)
	}
}
