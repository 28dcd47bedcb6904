package redisstore

import (
	"context"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
)

var news = engine.Spec{ID: 7, Name: "news", Kind: engine.Timing, Expire: time.Hour}

// openedTimed opens a store with the filter news, made if missing.
func openedTimed(t testing.TB, c Config) (*Store, *timed) {
	t.Helper()
	store, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	sets, err := store.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if found := sets[news]; found != nil {
		return store, found.(*timed)
	}
	made, err := store.Create(context.Background(), news, storetest.Birth())
	if err != nil {
		t.Fatal(err)
	}
	return store, made.(*timed)
}

func addTimed(t testing.TB, s *timed, from, n int, expire time.Duration) int {
	t.Helper()
	got, err := s.AddFor(context.Background(), storetest.Keys(s, from, n), expire, make([]bool, n))
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// addWhenHealed adds as soon as the store takes it; until then only errors that say so
// are right.
func addWhenHealed(t testing.TB, s *timed, from, n int, expire time.Duration) int {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		got, err := s.AddFor(context.Background(), storetest.Keys(s, from, n), expire, make([]bool, n))
		if err == nil {
			return got
		}
		if !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
			t.Fatalf("got %v, want ErrUnavailable or ErrInDoubt", err)
		}
		if time.Now().After(deadline) {
			t.Fatalf("not healed: %v", err)
		}
	}
}

// Redis loses its data, or a part: what either daemon accepted stays a duplicate for both,
// and for one that starts then, and expires when it should.
func TestTimedHealing(t *testing.T) {
	for name, lose := range map[string]func(*redistest.Server, *timed){
		"restarted empty": func(r *redistest.Server, _ *timed) { r.Kill(); r.Run() },
		"away for a while": func(r *redistest.Server, _ *timed) {
			r.Kill()
			time.Sleep(2500 * time.Millisecond)
			r.Run()
		},
		"flushed":                  func(r *redistest.Server, _ *timed) { r.CLI("flushall") },
		"flushed, then restarted":  func(r *redistest.Server, _ *timed) { r.CLI("flushall"); r.Kill(); r.Run() },
		"its registry is gone too": func(r *redistest.Server, s *timed) { r.CLI("del", registryKey, s.witness(3)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storeA, a := openedTimed(t, config(server.Addr))
			storeB, b := openedTimed(t, config(server.Addr))
			waitReady(t, storeA, storeB)
			time.Sleep(pollEvery + 200*time.Millisecond) // they have seen each other
			addTimed(t, a, 0, 5000, time.Hour)
			addTimed(t, b, 5000, 5000, time.Hour)
			const brief = 20 * time.Second
			before := time.Now()
			addTimed(t, a, 10_000, 100, brief)
			accepted := time.Now()
			lose(server, a)
			for _, c := range []struct {
				s    *timed
				from int
			}{{a, 5000}, {b, 0}, {a, 0}, {b, 5000}} {
				if n := addWhenHealed(t, c.s, c.from, 5000, time.Hour); n != 0 {
					t.Fatalf("%d items are new before they expire", n)
				}
			}
			n := addWhenHealed(t, b, 10_000, 50, time.Hour)
			if now := time.Now(); n > 0 && now.Sub(before) < brief-50*time.Millisecond {
				t.Errorf("%d items with a short time are new %v after they were accepted", n, now.Sub(before))
			}
			waitReady(t, storeA, storeB)
			_, c := openedTimed(t, config(server.Addr))
			if n := addTimed(t, c, 0, 10_000, time.Hour); n != 0 {
				t.Errorf("%d items are new for a third daemon before they expire", n)
			}
			if n := addTimed(t, c, 20_000, 1000, time.Hour); n != 1000 {
				t.Errorf("%d of 1000 new items are new", n)
			}
			time.Sleep(time.Until(accepted.Add(brief + 50*time.Millisecond)))
			if n := addTimed(t, c, 10_050, 50, time.Hour); n != 50 {
				t.Errorf("%d of 50 items that were put back are duplicates after they expired", 50-n)
			}
		})
	}
}

// One node of a cluster is flushed: the answers of that node do not count.
func TestTimedHealingOfAClusterNode(t *testing.T) {
	t.Parallel()
	servers := redistest.Cluster(t)
	storeA, a := openedTimed(t, config(servers[0].Addr))
	storeB, b := openedTimed(t, config(servers[1].Addr))
	waitReady(t, storeA, storeB)
	time.Sleep(pollEvery + 200*time.Millisecond)
	addTimed(t, a, 0, 5000, time.Hour)
	addTimed(t, b, 5000, 5000, time.Hour)
	for _, s := range servers {
		if n, _ := strconv.Atoi(s.CLI("dbsize")); n < 1000 {
			t.Errorf("a node has %d keys of 10,000: they do not spread", n)
		}
	}
	servers[2].CLI("flushall")
	for _, s := range []*timed{b, a, b} {
		if n := addWhenHealed(t, s, 0, 10_000, time.Hour); n != 0 {
			t.Fatalf("%d items are new before they expire", n)
		}
	}
}

// Two daemons, many callers, overlapping items: each is new for one of them, and when it
// has expired for one again.
func TestTimedExactlyOnceForTwoDaemons(t *testing.T) {
	for name, addrs := range map[string]func(testing.TB) string{
		"standalone": func(t testing.TB) string { return redistest.Start(t).Addr },
		"cluster":    func(t testing.TB) string { return redistest.Cluster(t)[0].Addr },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := config(addrs(t))
			_, a := openedTimed(t, c)
			_, b := openedTimed(t, c)
			if a.Seed() != b.Seed() || a.prefix != b.prefix {
				t.Fatal("the two daemons have different filters")
			}
			const callers, items, batch, expire = 8, 12_000, 500, 3 * time.Second
			for range 2 {
				wins := make([]atomic.Int32, items)
				start := time.Now()
				var wg sync.WaitGroup
				for caller := range callers {
					s := []*timed{a, b}[caller%2]
					wg.Go(func() {
						for i := range items / batch {
							from := (i + caller) * batch % items
							isNew := make([]bool, batch)
							if _, err := s.AddFor(context.Background(), storetest.Keys(s, from, batch), expire, isNew); err != nil {
								t.Error(err)
								return
							}
							for k, is := range isNew {
								if is {
									wins[from+k].Add(1)
								}
							}
						}
					})
				}
				wg.Wait()
				took := time.Since(start)
				if took > expire-50*time.Millisecond {
					t.Logf("too slow to tell: %v", took)
				}
				for i := range wins {
					if n := wins[i].Load(); n != 1 && took < expire-50*time.Millisecond || n < 1 {
						t.Fatalf("item %d was new for %d callers", i, n)
					}
				}
				time.Sleep(expire + 50*time.Millisecond)
			}
		})
	}
}

// Items that were accepted in a batch that failed elsewhere are owed: the next batch gets
// them as new, once, with its own expire.
func TestTimedDoubtIsGivenBackOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, s := openedTimed(t, config(server.Addr))
	keys := storetest.Keys(s, 0, 10)
	other, err := Open(context.Background(), config(server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	sets, err := other.Load(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	// As after such a batch: Redis has the items, and nobody was told.
	if n, err := sets[news].(*timed).AddFor(context.Background(), keys, time.Minute, make([]bool, 10)); n != 10 || err != nil {
		t.Fatal(n, err)
	}
	s.doubt.add(keys[:4])
	isNew := make([]bool, 10)
	if err := s.Has(context.Background(), keys, isNew); err != nil {
		t.Fatal(err)
	}
	for i, is := range isNew {
		if is != (i < 4) {
			t.Errorf("Has: key %d: %v", i, is)
		}
	}
	if n := addTimed(t, s, 0, 10, time.Hour); n != 4 {
		t.Errorf("%d are new, want the 4 in doubt", n)
	}
	if n := addTimed(t, s, 0, 10, time.Hour); n != 0 {
		t.Errorf("again: %d are new", n)
	}
	ttl, err := s.store.admin.PTTL(context.Background(), string(s.key(nil, keys[0]))).Result()
	if err != nil || ttl < 50*time.Minute {
		t.Errorf("an item that was owed expires in %v, want the hour of the call that got it; %v", ttl, err)
	}
}

// cutter is a connection to Redis that can break so that commands arrive and replies do not.
type cutter struct {
	net.Listener
	mu    sync.Mutex
	conns []net.Conn
	// left is how many bytes of replies still pass, all connections together.
	left atomic.Int64
}

func newCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	c.left.Store(1 << 60)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, client, server)
			c.mu.Unlock()
			work.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			work.Go(func() { c.replies(client, server) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		c.mu.Lock()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		work.Wait()
	})
	return c
}

func (c *cutter) replies(client, server net.Conn) {
	defer client.Close()
	buf := make([]byte, 4096)
	for {
		n, err := server.Read(buf)
		if err != nil {
			return
		}
		if left := c.left.Add(-int64(n)); left < 0 {
			_, _ = client.Write(buf[:max(0, n+int(left))])
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
	}
}

// Replies are lost in the middle of batches: with in_doubt seen no item is new twice, with
// new none is new for nobody.
func TestTimedRepliesLost(t *testing.T) {
	for _, doubtIsNew := range []bool{false, true} {
		t.Run(strconv.FormatBool(doubtIsNew), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			line := newCutter(t, server.Addr)
			c := config(line.Addr().String())
			c.DoubtIsNew = doubtIsNew
			_, s := openedTimed(t, c)
			_, other := openedTimed(t, config(server.Addr))
			const rounds, n = 40, 300
			doubtful := 0
			for round := range rounds {
				keys := storetest.Keys(s, round*n, n)
				wins := make([]int, n)
				note := func(isNew []bool) {
					for i, is := range isNew {
						if is {
							wins[i]++
						}
					}
				}
				line.left.Store(int64(round * n * 5 / rounds))
				isNew := make([]bool, n)
				_, err := s.AddFor(context.Background(), keys, time.Hour, isNew)
				line.left.Store(1 << 60)
				unknown := errors.Is(err, engine.ErrInDoubt)
				if err == nil {
					note(isNew)
				} else if unknown {
					doubtful++
				}
				for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
					if _, err = s.AddFor(context.Background(), keys, time.Hour, isNew); err == nil {
						note(isNew)
						break
					}
					if unknown = unknown || errors.Is(err, engine.ErrInDoubt); time.Now().After(deadline) {
						t.Fatal(err)
					}
				}
				if _, err := other.AddFor(context.Background(), keys, time.Hour, isNew); err != nil {
					t.Fatal(err)
				}
				note(isNew)
				for i, w := range wins {
					switch {
					case w > 1:
						t.Fatalf("round %d: item %d was new %d times", round, i, w)
					case w == 0 && (doubtIsNew || !unknown):
						t.Fatalf("round %d: item %d was new for nobody, though the batch was not in doubt or doubt is new", round, i)
					}
				}
			}
			if doubtful < rounds/3 {
				t.Errorf("only %d of %d batches were in doubt", doubtful, rounds)
			}
		})
	}
}

// A dropped filter's keys are taken out of Redis; a new one of its name and id does not see
// them, even before, and loses none of its own.
func TestTimedDropCleansUp(t *testing.T) {
	for name, start := range map[string]func(t testing.TB) []*redistest.Server{
		"standalone": func(t testing.TB) []*redistest.Server { return []*redistest.Server{redistest.Start(t)} },
		"cluster":    func(t testing.TB) []*redistest.Server { return redistest.Cluster(t) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := start(t)
			store, s := openedTimed(t, config(servers[0].Addr))
			_, bits := opened(t, config(servers[0].Addr))
			addTimed(t, s, 0, 3000, time.Hour)
			add(t, bits, 0, 1000)
			old := s.prefix
			if err := store.Drop(context.Background(), news); err != nil {
				t.Fatal(err)
			}
			again, err := store.Create(context.Background(), news, storetest.Birth())
			if err != nil {
				t.Fatal(err)
			}
			s = again.(*timed)
			if n := addTimed(t, s, 0, 3000, time.Hour); n != 3000 {
				t.Errorf("made anew: %d of 3000 items are new", n)
			}
			for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
				left := 0
				for _, server := range servers {
					for key := range strings.Lines(server.CLI("--scan")) {
						if strings.HasPrefix(strings.TrimPrefix(key, `"`), old) {
							left++
						}
					}
				}
				if left == 0 {
					break
				}
				if time.Now().After(deadline) {
					t.Fatalf("%d keys of the dropped filter are left", left)
				}
			}
			waitReady(t, store)
			if n := addTimed(t, s, 0, 3000, time.Hour); n != 0 {
				t.Errorf("made anew: %d items are new before they expire", n)
			}
			if n := add(t, bits, 0, 1000); n != 0 {
				t.Errorf("the bloom filter beside it has lost %d items", n)
			}
		})
	}
}

func TestTimedOutOfMemory(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	_, s := openedTimed(t, config(server.Addr))
	accepted := 0
	var err error
	for i := 0; err == nil && i < 100; i++ {
		if _, err = s.AddFor(context.Background(), storetest.Keys(s, i*1000, 1000), time.Hour, make([]bool, 1000)); err == nil {
			accepted += 1000
		}
	}
	if !errors.Is(err, engine.ErrNoSpace) || !strings.Contains(err.Error(), "hint:") {
		t.Errorf("got %v, want ErrNoSpace", err)
	}
	// With room again the batch that was refused is new, the part that had got in included.
	server.CLI("config", "set", "maxmemory", "100mb")
	if n := addTimed(t, s, 0, accepted, time.Hour); n != 0 {
		t.Errorf("%d accepted items are new", n)
	}
	if n := addTimed(t, s, accepted, 1000, time.Hour); n != 1000 {
		t.Errorf("%d of the 1000 items of the refused batch are new", n)
	}
}

// What has expired leaves the mirror, as it leaves Redis by itself.
func TestTimedMirrorForgets(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	_, s := openedTimed(t, config(server.Addr))
	empty, _ := strconv.Atoi(server.CLI("dbsize"))
	used := redisMemory(server)
	const n = 50_000
	addTimed(t, s, 0, n, 2*time.Second)
	st := s.Stats()
	t.Logf("%d items: %.1f bytes each here, %.0f in redis", st.Items, float64(st.Bytes)/n, float64(redisMemory(server)-used)/n)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		st = s.Stats()
		left, _ := strconv.Atoi(server.CLI("dbsize"))
		if st.Items == 0 && st.Bytes == 0 && left <= empty {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, %d keys in redis", st, left-empty)
		}
	}
}

func redisMemory(s *redistest.Server) int {
	n, _ := strconv.Atoi(field(s.CLI("info", "memory"), "used_memory"))
	return n
}
