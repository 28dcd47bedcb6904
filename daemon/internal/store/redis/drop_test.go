package redis

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// counting is a log that counts lines that contain a text.
type counting struct {
	slog.Handler
	text string
	n    atomic.Int32
}

func (c *counting) Enabled(context.Context, slog.Level) bool { return true }
func (c *counting) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, c.text) {
		c.n.Add(1)
	}
	return nil
}

// Filters are dropped and made again while other daemons use them: no data counts as lost,
// no call of another filter fails, and no key stays in Redis.
func TestDropBesideUse(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	trusted := &counting{Handler: slog.DiscardHandler, text: "redis is in sync"}
	c := config(server.Addr)
	c.Log = slog.New(trusted)
	storeA, _ := opened(t, c)
	storeB, b := opened(t, c)
	started := trusted.n.Load()
	spec := engine.Spec{ID: 9, Name: "extra", Kind: "bloom", Params: configs.Bloom{Capacity: 3_000_000, ErrorRate: 1e-4, OnFull: "warn"}}
	stop := make(chan struct{})
	var work sync.WaitGroup
	end := sync.OnceFunc(func() { close(stop); work.Wait() })
	defer end() // before the stores are closed
	// Another daemon's callers use whichever filter has the name, and the filter beside it.
	taken := sync.Map{}
	work.Go(func() {
		for {
			select {
			case <-stop:
				return
			case change := <-storeB.Changes():
				if change.Spec == spec && change.Set != nil {
					taken.Store("extra", change.Set)
				}
			}
		}
	})
	work.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if set, ok := taken.Load("extra"); ok {
				var unknown *engine.UnknownFilterError
				keys := storetest.Keys(set.(engine.Set), i*100, 100)
				if _, err := set.(engine.Set).Add(ctx, keys, make([]bool, 100)); err != nil && !errors.As(err, &unknown) {
					t.Errorf("a filter that others drop: %v", err)
				}
			}
			if _, err := b.Add(ctx, storetest.Keys(b, i*100, 100), make([]bool, 100)); err != nil {
				t.Errorf("the filter beside it: %v", err)
			}
			time.Sleep(between)
		}
	})
	for round := range 6 {
		made, err := storeA.Create(ctx, spec, engine.Identity{Seed: uint64(round + 1), Generation: 1, Created: time.Now()})
		if err != nil {
			t.Fatal(err)
		}
		if round%2 == 0 {
			testserver.Await(t, "the other daemon sees the filter", func() bool {
				set, ok := taken.Load("extra")
				return ok && set.(engine.Set).Seed() == made.Seed()
			})
		}
		if n := add(t, made.(*bitmap.Set), 0, 1000); n > 1000 || n == 0 {
			t.Errorf("made again: %d of 1000 items are new", n)
		}
		if err := storeA.Drop(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	awaitRemoved(t, server, "urifilter:{9-extra*")
	end()
	if n := trusted.n.Load(); n != started {
		t.Errorf("redis was taken for one that has lost data %d times", n-started)
	}
	waitReady(t, storeA, storeB)
}

// awaitRemoved waits until Redis has neither keys of dropped filters nor tombstones.
func awaitRemoved(t *testing.T, server *redistest.Server, pattern string) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		left := ""
		for key := range strings.Lines(server.CLI("--scan", "--pattern", pattern)) {
			// The tokens of published unacknowledged items expire.
			if key = strings.TrimSpace(key); !strings.Contains(key, ":unacknowledged:") || server.CLI("ttl", key) == "-1" {
				left += key + "\n"
			}
		}
		tombs := server.CLI("hgetall", registry.TombstonesKey)
		if left == "" && tombs == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("left of dropped filters:\n%stombstones:\n%s", left, tombs)
		}
	}
}

// A batch that comes late to a dropped filter makes a key again behind the daemon that removes the keys:
// it is removed too, in whichever layer it is.
func TestDropBesideLateBatch(t *testing.T) {
	t.Parallel()
	for _, onFull := range []string{"warn", "grow"} {
		t.Run(onFull, func(t *testing.T) {
			t.Parallel()
			ctx := context.Background()
			server := redistest.Start(t)
			store, _ := opened(t, config(server.Addr))
			spec := engine.Spec{ID: 9, Name: "extra", Kind: "bloom", Params: configs.Bloom{Capacity: 3_000_000, ErrorRate: 1e-4, OnFull: onFull}}
			made, err := store.Create(ctx, spec, storetest.Identity())
			if err != nil {
				t.Fatal(err)
			}
			e := made.(base.Filter).Base().Entry
			if err := store.Drop(ctx, spec); err != nil {
				t.Fatal(err)
			}
			stripe := e.Header.Stripes() - 1
			if e.Header.Layers > 0 {
				stripe += 2 // the second of a further layer
			}
			// The last key that is removed is that of unacknowledged items: a late batch runs just before.
			late := &beforeUnlink{key: registry.UnackedKey(e), do: func() {
				server.CLI("setbit", registry.StripeKey(e, stripe), "100", "1")
				if err := store.registry.Unmake(ctx, e); err != nil {
					t.Error(err)
				}
			}}
			store.servers.Admin.AddHook(late)
			awaitRemoved(t, server, "urifilter:{9-extra*")
			if !late.done.Load() {
				t.Error("there was no late batch")
			}
		})
	}
}

// beforeUnlink is a hook of a Redis client that calls do once, before a key is removed.
type beforeUnlink struct {
	key  string
	do   func()
	done atomic.Bool
}

func (*beforeUnlink) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*beforeUnlink) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *beforeUnlink) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if args := cmd.Args(); cmd.Name() == "unlink" && args[1] == h.key && h.done.CompareAndSwap(false, true) {
			h.do()
		}
		return next(ctx, cmd)
	}
}

// A daemon dies after a drop, or while making a filter: another one, or its successor,
// removes the keys.
func TestKeysOfDeadDaemonsAreRemoved(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	tomb, err := registry.TombOf(s.Entry)
	if err != nil {
		t.Fatal(err)
	}
	server.CLI("hdel", registry.Key, uri.Name) // as Drop does, in one step
	server.CLI("hset", registry.TombstonesKey, tomb, registry.Dropped)
	half, err := registry.NewEntry(engine.Spec{ID: 5, Name: "half", Kind: "bloom", Params: configs.Bloom{Capacity: 3_000_000, ErrorRate: 1e-4, OnFull: "warn"}}, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	f, err := bitmap.New(store.link, half)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Create(ctx); err != nil {
		t.Fatal(err)
	}
	if tomb, err = registry.TombOf(half); err != nil {
		t.Fatal(err)
	}
	server.CLI("hset", registry.TombstonesKey, tomb, "a-daemon:1:killed")
	if err := errors.Join(f.Free(), store.Close()); err != nil {
		t.Fatal(err)
	}
	next, other := opened(t, config(server.Addr))
	add(t, other, 0, 1000)
	for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var left []string
		for key := range strings.Lines(server.CLI("--scan", "--pattern", "urifilter:{[15]-*")) {
			if !strings.HasPrefix(strings.TrimSpace(key), registry.MapPrefix(other.Entry)) {
				left = append(left, key)
			}
		}
		if len(left) == 0 && server.CLI("hlen", registry.TombstonesKey) == "0" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("keys are left: %q", left)
		}
	}
	waitReady(t, next)
	if n := add(t, other, 0, 1000); n != 0 {
		t.Errorf("%d items of the filter that was made since are new again", n)
	}
}

// Filters of versions before tags are served, resynced, dropped and made again.
func TestFiltersWithoutTags(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	add(t, s, 0, 5000)
	old := s.Entry
	old.Tag = ""
	text, err := old.Encode()
	if err != nil || strings.Contains(text, "tag") || strings.Contains(text, `"map"`) {
		t.Fatalf("%v: %s", err, text)
	}
	for i, key := range s.StripeKeys() {
		server.CLI("rename", key, fmt.Sprintf("urifilter:{%d-%s:%d}", uri.ID, uri.Name, i))
	}
	server.CLI("hset", registry.Key, uri.Name, text)
	_ = store.Close()
	storeA, a := opened(t, config(server.Addr))
	_, b := opened(t, config(server.Addr))
	if a.StripeKeys()[0] != "urifilter:{1-uri:0}" {
		t.Fatal(a.StripeKeys()[0])
	}
	if n := add(t, a, 0, 5000); n != 0 {
		t.Errorf("%d items are new again", n)
	}
	add(t, a, 5000, 1000)
	server.CLI("del", a.StripeKeys()[1])
	for _, s := range []*bitmap.Set{b, a} {
		if isNew, _ := addUntilAnswered(t, s, 0, 6000); countOf(isNew) != 0 {
			t.Errorf("%d items are new after a stripe was lost", countOf(isNew))
		}
	}
	waitReady(t, storeA)
	if err := storeA.Drop(ctx, uri); err != nil {
		t.Fatal(err)
	}
	again, err := storeA.Create(ctx, uri, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if n := add(t, again.(*bitmap.Set), 0, 6000); n != 6000 {
		t.Errorf("made again: %d of 6000 are new", n)
	}
	testserver.Await(t, "the stripes of the dropped filter are gone", func() bool { return server.CLI("exists", "urifilter:{1-uri:0}") == "0" })
	if n := add(t, again.(*bitmap.Set), 0, 6000); n != 0 {
		t.Errorf("made again: %d items are new again", n)
	}
}

func countOf(isNew []bool) (n int) {
	for _, is := range isNew {
		if is {
			n++
		}
	}
	return n
}

// Restores and a resync write to the same stripes at the same moment: neither loses bits.
func TestRestoreBesideResync(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	store, s := opened(t, config(server.Addr))
	add(t, s, 0, 5000)
	var parts []*bloom.Map
	for i := range 4 {
		part, err := bloom.New(s.Header())
		if err != nil {
			t.Fatal(err)
		}
		defer part.Close()
		part.Add(storetest.Keys(s, 10_000*(i+1), 5000), make([]bool, 5000))
		parts = append(parts, part)
	}
	var work sync.WaitGroup
	for _, part := range parts {
		work.Go(func() {
			for i := range s.StripeKeys() {
				if err := s.MergeStripe(ctx, i, part.Stripe(i, make([]byte, bloom.StripeBytes))); err != nil {
					t.Errorf("stripe %d: %v", i, err)
				}
			}
		})
	}
	for range 5 {
		work.Go(func() {
			if _, err := s.Resync(ctx); err != nil {
				t.Errorf("resync: %v", err)
			}
		})
	}
	work.Wait()
	_ = store.Close()
	_, other := opened(t, config(server.Addr))
	for from := 0; from < 50_000; from += 10_000 {
		if n := add(t, other, from, 5000); n != 0 {
			t.Errorf("%d items from %d on are lost", n, from)
		}
	}
	for _, key := range s.StripeKeys() {
		if ttl := server.CLI("ttl", key); ttl != "-1" {
			t.Errorf("%s has %s s to live", key, ttl)
		}
	}
}

// losing is a hook of a Redis client that loses one answer: to the change of the registry.
type losing struct{ done atomic.Bool }

func (*losing) DialHook(next redis.DialHook) redis.DialHook { return next }
func (*losing) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (h *losing) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err, args := next(ctx, cmd), cmd.Args()
		change := cmd.Name() == "evalsha" && len(args) > 3 && args[3] == registry.Key && args[2] != 2
		if change && err == nil && h.done.CompareAndSwap(false, true) {
			err = io.ErrUnexpectedEOF
			cmd.SetErr(err)
		}
		return err
	}
}

// A drop whose answer is lost is one for the daemon that has sent it, too.
func TestDropWhoseAnswerIsLost(t *testing.T) {
	t.Parallel()
	d := startDaemon(t, redistest.Start(t).Addr, uri)
	if n := d.ask(uri.Name, 0, 10); n != 10 {
		t.Fatal(n)
	}
	d.store.servers.Admin.AddHook(&losing{})
	if err := d.Drop(t.Context(), uri.Name); err == nil {
		t.Error("no error")
	}
	testserver.Await(t, "the daemon no longer serves the filter", func() bool {
		_, err := d.Lookup(uri.Name)
		return errors.As(err, new(*engine.UnknownFilterError))
	})
}

// A filter that another daemon has cleared is dropped by one that has not followed the clear yet.
func TestDropOfWhatAnotherDaemonHasCleared(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, _ := opened(t, config(server.Addr))
	b, _ := opened(t, config(server.Addr))
	meet(t, a, b)
	halt(b)
	served, cleared := make(chan struct{}), make(chan error)
	go func() { cleared <- a.Clear(ctx, uri, identity(2), func(engine.Set) { close(served) }) }()
	<-served // a waits for b now
	if err := b.Drop(ctx, uri); err != nil {
		t.Fatal(err)
	}
	if got := server.CLI("hexists", registry.Key, uri.Name); got != "0" {
		t.Error("the filter is there after the drop")
	}
	_ = b.Close()
	if err := <-cleared; err != nil {
		t.Error(err)
	}
}
