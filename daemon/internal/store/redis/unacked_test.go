package redis

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// kinds are the kinds of this store: open makes or finds the filter.
var kinds = map[string]func(testing.TB, Config) (*Store, engine.Set){
	"bloom": func(t testing.TB, c Config) (*Store, engine.Set) { return opened(t, c) },
	"bloom, small mirror": func(t testing.TB, c Config) (*Store, engine.Set) {
		c.MirrorBytes = tiny
		return opened(t, c)
	},
	"timing": func(t testing.TB, c Config) (*Store, engine.Set) {
		return openedTimed(t, c)
	},
	"exact":        func(t testing.TB, c Config) (*Store, engine.Set) { return openedExact(t, c) },
	"fingerprints": openedFingerprints,
}

func forEachKind(t *testing.T, test func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set))) {
	forEach(t, kinds, test)
}

func forEach(t *testing.T, kinds map[string]func(testing.TB, Config) (*Store, engine.Set), test func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set))) {
	for name, open := range kinds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open)
		})
	}
}

// wins counts how often each item was new for somebody.
type wins map[int]int

func (w wins) note(from int, isNew []bool) {
	for i, is := range isNew {
		if is {
			w[from+i]++
		}
	}
}

// addUntilAnswered adds until a batch is answered, and reports whether an error on the way
// said that the outcome is unknown.
func addUntilAnswered(t testing.TB, s engine.Set, from, n int) (isNew []bool, unknown bool) {
	t.Helper()
	isNew = make([]bool, n)
	testserver.AwaitNil(t, "an answer", func() error {
		_, err := s.Add(context.Background(), storetest.Keys(s, from, n), isNew)
		unknown = unknown || errors.Is(err, engine.ErrInDoubt)
		return err
	})
	return isNew, unknown
}

// Replies are lost in the middle of batches. Answers are true whichever daemon the caller asks
// next: with in_doubt seen no item is ever new twice, and an item is new for nobody only if
// the outcome was reported as unknown; with new every item is new for somebody.
func TestRepliesLost(t *testing.T) {
	t.Parallel()
	const rounds = 12
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		for _, unackedIsNew := range []bool{false, true} {
			t.Run(strconv.FormatBool(unackedIsNew), func(t *testing.T) {
				t.Parallel()
				server := redistest.Start(t)
				line := testserver.NewCutter(t, server.Addr)
				c := config(line.Addr)
				c.UnackedIsNew = unackedIsNew
				_, s := open(t, c)
				direct := config(server.Addr)
				direct.UnackedIsNew = unackedIsNew
				storeB, other := open(t, direct)
				const n = 300
				doubtful := 0
				for round := range rounds {
					w := wins{}
					from := round * n
					line.Cut(round * n * 5 / rounds)
					isNew := make([]bool, n)
					_, err := s.Add(context.Background(), storetest.Keys(s, from, n), isNew)
					line.Pass()
					unknown := errors.Is(err, engine.ErrInDoubt)
					if err == nil {
						w.note(from, isNew)
					} else if unknown {
						doubtful++
					}
					// Any order of the two daemons.
					for _, set := range [][]engine.Set{{s, other, s}, {other, s, other}}[round%2] {
						isNew, told := addUntilAnswered(t, set, from, n)
						unknown = unknown || told
						w.note(from, isNew)
					}
					if unackedIsNew || !unknown {
						publishNow(t, s, storeB)
						isNew, told := addUntilAnswered(t, other, from, n)
						unknown = unknown || told
						w.note(from, isNew)
					}
					for i := from; i < from+n; i++ {
						switch got := w[i]; {
						case got > 1 && !unackedIsNew:
							t.Fatalf("round %d: item %d was new %d times", round, i, got)
						case got == 0 && (unackedIsNew || !unknown):
							t.Fatalf("round %d: item %d was new for nobody (unknown: %v)", round, i, unknown)
						}
					}
				}
				if doubtful < rounds/3 {
					t.Errorf("only %d of %d batches were in doubt", doubtful, rounds)
				}
			})
		}
	})
}

// publishNow makes the daemon of s do at once what it does in the background, and the other
// one learn of it.
func publishNow(t testing.TB, s engine.Set, other *Store) {
	t.Helper()
	if set, ok := s.(*bitmap.Set); ok {
		if err := set.PublishUnacked(context.Background(), set.Servers.Batches); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.followUnacked(context.Background(), other.bad(), true); err != nil {
		t.Fatal(err)
	}
}

// Redis runs out of memory in the middle of a batch: the answer is also true at the other
// daemon, and once there is room again every item is new once.
//
// Sets of items have 500,000 bytes left; a bit-map, a part of which takes more, has what is left of 4 MiB.
func TestOutOfMemoryInABatch(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		server := redistest.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
		_, s := open(t, config(server.Addr))
		storeB, other := open(t, config(server.Addr))
		if _, bits := s.(*bitmap.Set); !bits {
			server.CLI("config", "set", "maxmemory", strconv.Itoa(min(4<<20, redisMemory(server)+500_000)))
		}
		w := wins{}
		const n = 1000
		next, parts := 0, 0
		for round := 0; round < 1000 && parts < 3; round++ {
			isNew := make([]bool, n)
			_, err := s.Add(context.Background(), storetest.Keys(s, next, n), isNew)
			if err == nil {
				w.note(next, isNew)
				next += n
				continue
			}
			if !errors.Is(err, engine.ErrNoSpace) || !strings.Contains(err.Error(), "hint:") {
				t.Fatalf("got %v, want ErrNoSpace", err)
			}
			unknown := errors.Is(err, engine.ErrInDoubt)
			if !unknown { // nothing was remembered, at any daemon
				if err := other.Has(context.Background(), storetest.Keys(other, next, n), isNew); err != nil {
					t.Fatal(err)
				}
				for i, is := range isNew {
					if _, bits := s.(*bitmap.Set); !is && !bits { // those of a bloom filter may be false positives
						t.Fatalf("item %d is seen, and the caller was told that nothing was remembered", next+i)
					}
				}
			}
			parts++
			used := redisMemory(server)
			server.CLI("config", "set", "maxmemory", strconv.Itoa(used+300_000))
		}
		if parts == 0 {
			t.Fatal("memory did not run out")
		}
		server.CLI("config", "set", "maxmemory", "500mb")
		publishNow(t, s, storeB)
		for from := 0; from <= next; from += n {
			for _, set := range []engine.Set{other, s} {
				isNew, _ := addUntilAnswered(t, set, from, n)
				w.note(from, isNew)
			}
		}
		nobody := 0
		for i := range next + n {
			switch got := w[i]; {
			case got > 1:
				t.Fatalf("item %d was new %d times", i, got)
			case got == 0:
				nobody++
			}
		}
		if _, bits := s.(*bitmap.Set); nobody > 0 && !bits || nobody > (next+n)/500 {
			t.Errorf("%d of %d items were new for nobody", nobody, next+n)
		}
	})
}

// An unacknowledged item is new for one caller of all daemons, even after the daemon whose
// batch failed has ended, after any length of time, and after a restart of Redis with its file.
func TestUnacknowledgedItemsAreGivenOutOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	storeA, a := opened(t, config(server.Addr))
	storeB, b := opened(t, config(server.Addr))
	keys := storetest.Keys(a, 0, 100)
	add(t, b, 0, 100) // as in a failed batch of a: Redis has them, and nobody was told
	a.Unacknowledge(keys[:60])
	want := func(s *bitmap.Set, fresh int) {
		t.Helper()
		isNew := make([]bool, 100)
		if err := s.Has(context.Background(), keys, isNew); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, is := range isNew {
			if is {
				n++
			}
		}
		if n != fresh {
			t.Errorf("%d look new, want %d", n, fresh)
		}
	}
	want(a, 60)
	if n := add(t, a, 0, 20); n != 20 {
		t.Errorf("%d of 20 are new at the daemon that broke off", n)
	}
	publishNow(t, a, storeB)
	want(a, 40)
	want(b, 40)
	if n := add(t, b, 20, 10) + add(t, a, 20, 10); n != 10 {
		t.Errorf("10 items were new %d times", n)
	}
	_ = storeA.Close()
	storeC, c := opened(t, config(server.Addr))
	want(c, 30)
	if n := add(t, c, 30, 10) + add(t, b, 30, 10); n != 10 {
		t.Errorf("10 items were new %d times", n)
	}
	_, _ = storeB.Close(), storeC.Close()
	server.Kill()
	server.Run()
	_, d := opened(t, config(server.Addr))
	want(d, 20)
	both := make([]bloom.Hash, 0, 40)
	both = append(append(both, keys[40:60]...), keys[40:60]...)
	if n, err := d.Add(context.Background(), both, make([]bool, 40)); n != 20 || err != nil {
		t.Errorf("%d of 20 are new in a list that has them twice, %v", n, err)
	}
	if n := add(t, d, 0, 100); n != 0 {
		t.Errorf("%d items are new again", n)
	}
}

// Redis loses its data while items are unacknowledged: each is new once, at whichever daemon
// is asked first.
func TestUnacknowledgedItemsAndLostData(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(*redistest.Server){
		"restarted empty": func(r *redistest.Server) { r.Kill(); r.Run() },
		"flushed":         func(r *redistest.Server) { r.CLI("flushall") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			storeA, a := opened(t, config(server.Addr))
			storeB, b := opened(t, config(server.Addr))
			meet(t, storeA, storeB)
			add(t, a, 0, 1000)
			keys := storetest.Keys(a, 1000, 1000)
			// A batch is under way at b, and a waits for it: nothing is resynced before it has ended.
			storeB.state.Flight.RLock()
			end := sync.OnceFunc(storeB.state.Flight.RUnlock)
			defer end()
			lose(server)
			if _, err := a.Add(context.Background(), keys, make([]bool, 1000)); err == nil {
				t.Fatal("a batch is answered by a redis that has lost data")
			}
			a.Unacknowledge(keys[:500]) // of a batch that had failed before
			end()
			w := wins{}
			for _, s := range []*bitmap.Set{b, a, b} {
				isNew, _ := addUntilAnswered(t, s, 1000, 1000)
				w.note(1000, isNew)
			}
			for i := 1000; i < 2000; i++ {
				if w[i] != 1 {
					t.Fatalf("item %d was new %d times", i, w[i])
				}
			}
			if n := add(t, b, 0, 1000); n != 0 {
				t.Errorf("%d acknowledged items are new again", n)
			}
		})
	}
}

// undoing is a hook by which a batch is carried out and breaks off, its items cannot be removed, and the next
// one who tries to is held up.
type undoing struct {
	step           atomic.Int32
	begun, proceed chan struct{}
}

func (*undoing) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (*undoing) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h *undoing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		removes := strings.HasPrefix(cmds[0].Name(), "eval")
		switch {
		case !removes && h.step.CompareAndSwap(0, 1):
			if err := next(ctx, cmds); err != nil {
				return err
			}
			cmds[len(cmds)-1].SetErr(io.ErrUnexpectedEOF)
			return io.ErrUnexpectedEOF
		case removes && h.step.CompareAndSwap(1, 2):
			for _, cmd := range cmds {
				cmd.SetErr(redis.ErrClosed)
			}
			return redis.ErrClosed
		case removes && h.step.CompareAndSwap(2, 3):
			close(h.begun)
			<-h.proceed
		}
		return next(ctx, cmds)
	}
}

// A batch broke off, and its items are still in Redis. The caller asks again while another batch removes them:
// they are new.
func TestAskedAgainWhileAnotherBatchRemoves(t *testing.T) {
	t.Parallel()
	forEach(t, map[string]func(testing.TB, Config) (*Store, engine.Set){"timing": kinds["timing"], "exact": kinds["exact"]},
		func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
			const n = 100
			store, s := open(t, config(redistest.Start(t).Addr))
			h := &undoing{begun: make(chan struct{}), proceed: make(chan struct{})}
			store.servers.Batches.AddHook(h)
			if _, err := s.Add(context.Background(), storetest.Keys(s, 0, n), make([]bool, n)); !errors.Is(err, engine.ErrInDoubt) {
				t.Fatalf("got %v, want ErrInDoubt", err)
			}
			other, again := make(chan error, 1), make(chan error, 1)
			isNew := make([]bool, n)
			go func() {
				_, err := s.Add(context.Background(), storetest.Keys(s, n, 1), make([]bool, 1))
				other <- err
			}()
			<-h.begun
			go func() {
				_, err := s.Add(context.Background(), storetest.Keys(s, 0, n), isNew)
				again <- err
			}()
			select {
			case err := <-again:
				t.Errorf("answered before the items were removed: %d of them are new, %v", countOf(isNew), err)
			case <-time.After(200 * time.Millisecond):
			}
			close(h.proceed)
			for _, c := range []chan error{other, again} {
				select {
				case err := <-c:
					if err != nil {
						t.Error(err)
					}
				case <-time.After(5 * time.Minute):
					t.Fatal("no answer")
				}
			}
			if got := countOf(isNew); got != n {
				t.Errorf("%d of the %d items are new", got, n)
			}
		})
}

// asking is a hook that calls a function at each pipeline.
type asking struct{ do func() }

func (asking) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (asking) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (h asking) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		h.do()
		return next(ctx, cmds)
	}
}

// A daemon does not say that it has stopped while a call is under way, even one that only looks: half-way
// through a resync Redis lacks items that other daemons have not put back yet.
func TestResyncWaitsForThoseWhoLook(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		store, s := open(t, config(redistest.Start(t).Addr))
		var asked atomic.Int32
		ask := func() {
			if asked.Add(1); store.state.Flight.TryLock() {
				store.state.Flight.Unlock()
				t.Error("a resync would not wait")
			}
		}
		store.servers.Batches.AddHook(asking{ask})
		if err := s.Has(context.Background(), storetest.Keys(s, 0, 10), make([]bool, 10)); err != nil || asked.Load() == 0 {
			t.Error(asked.Load(), err)
		}
		if bits, ok := s.(engine.BitMap); ok {
			var h onGet
			h.do.Store(&ask)
			store.servers.Admin.AddHook(&h)
			if _, err := bits.Stripe(context.Background(), 0, make([]byte, bloom.StripeBytes)); err != nil || h.do.Load() != nil {
				t.Error(h.do.Load() == nil, err)
			}
		}
	})
}
