package redis

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// What others do while a daemon resyncs. The daemon's own goroutines are halted, so that a test
// can take their steps in the order that it needs.

// halt ends the goroutines of a store.
func halt(s *Store) {
	s.stop()
	s.work.Wait()
}

// onGet runs a function before a client's next GET of a filter's key.
type onGet struct{ do atomic.Pointer[func()] }

func (h *onGet) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *onGet) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if key, _ := cmd.Args()[len(cmd.Args())-1].(string); cmd.Name() == "get" && strings.HasPrefix(key, "urifilter:{") {
			if do := h.do.Swap(nil); do != nil {
				(*do)()
			}
		}
		return next(ctx, cmd)
	}
}

func (h *onGet) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// A daemon learns that Redis has lost data while it reads a filter that another daemon has cleared: it
// does not serve what it has read, and the one that clears waits until it serves the filter.
func TestClearBesideResync(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, mine := opened(t, config(server.Addr))
	b, its := opened(t, config(server.Addr))
	add(t, mine, 0, 100)
	add(t, its, 0, 100)
	meet(t, a, b)
	halt(b)
	cleared, superseded := make(chan error, 1), make(chan struct{})
	go func() {
		cleared <- a.Clear(ctx, uri, identity(2), func(engine.Set) { close(superseded) })
	}()
	<-superseded
	version, err := b.registry.Version(ctx)
	if err != nil {
		t.Fatal(err)
	}
	hasFollowed := func() bool {
		t.Helper()
		followed, err := b.members.Followed(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return followed[b.members.Self] == strconv.FormatInt(version, 10)
	}
	var hook onGet
	b.servers.Admin.AddHook(&hook)
	epoch, err := b.state.Check()
	if err != nil {
		t.Fatal(err)
	}
	invalidate := func() { b.state.Invalidate(errors.New("another daemon found that redis has lost data")) }
	hook.do.Store(&invalidate)
	err = b.follow(ctx, epoch)
	if hook.do.Load() != nil {
		t.Fatal("the filter was not read")
	}
	if err == nil || hasFollowed() || b.all()[0] != its {
		t.Errorf("follow: %v, and it says that it has followed: %v", err, hasFollowed())
	}
	if err := b.resync(ctx); err != nil {
		t.Fatal(err)
	}
	if epoch, err = b.state.Check(); err != nil {
		t.Fatal(err)
	}
	if err := b.follow(ctx, epoch); err != nil || !hasFollowed() {
		t.Fatalf("follow: %v", err)
	}
	if err := <-cleared; err != nil {
		t.Fatal(err)
	}
	now := b.all()[0]
	if n, err := now.Add(ctx, storetest.Keys(now, 0, 100), make([]bool, 100)); n != 100 || err != nil {
		t.Errorf("%d of 100 items are new after the clear, %v", n, err)
	}
}

// grows is a filter that adds a layer every few batches.
var grows = engine.Spec{ID: 3, Name: "links", Kind: "bloom", Params: configs.Bloom{Capacity: 2000, ErrorRate: 1e-6, OnFull: "grow"}}

// grown makes or finds the filter grows, and adds items.
func grown(t *testing.T, s *Store, items int) engine.Layered {
	t.Helper()
	made, err := s.Create(context.Background(), grows, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := made.Add(context.Background(), storetest.Keys(made, 0, items), make([]bool, items)); err != nil {
		t.Fatal(err)
	}
	return made.(engine.Layered)
}

// archived returns stripes with items, for the first layer of a filter.
func archived(t *testing.T, set engine.Layered, from, n int) (stripes [][]byte) {
	t.Helper()
	bits, err := bloom.NewLayer(set.Header(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer bits.Close()
	bits.Add(storetest.Keys(set, from, n), make([]bool, n))
	for i := range bits.Header().Stripes() {
		stripes = append(stripes, bits.Stripe(i, make([]byte, bits.Header().LargestStripe())))
	}
	return stripes
}

// restore puts stripes into a filter as the archive does.
func restore(ctx context.Context, into engine.Sink, stripes [][]byte) error {
	for i, data := range stripes {
		if err := into.MergeStripe(ctx, i, data); err != nil {
			return err
		}
	}
	return into.Commit(ctx)
}

// A restore into a closed layer that ends while its daemon resyncs is only done when the others
// know of it, even if they have read that layer before.
func TestRestoreEndsBesideResync(t *testing.T) {
	t.Parallel()
	const items, restored = 20_000, 100
	server := redistest.Start(t)
	a, _ := opened(t, config(server.Addr))
	b, _ := opened(t, config(server.Addr))
	all := grown(t, a, items)
	its := grown(t, b, items)
	if len(its.Layers()) < 2 {
		t.Fatalf("%d layers: hardly anything grew", len(its.Layers()))
	}
	meet(t, a, b)
	halt(b)
	stripes := archived(t, its, items, restored)
	b.state.Invalidate(errors.New("another daemon found that redis has lost data"))
	ended, end := context.WithCancel(context.Background())
	end()
	if err := restore(ended, its, stripes); err == nil {
		t.Error("a restore is done, and nobody was told of it")
	}
	work, stop := context.WithCancel(context.Background())
	resynced := make(chan struct{})
	go func() { defer close(resynced); b.resyncer(work) }()
	defer func() { stop(); <-resynced }()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	if err := restore(ctx, its, stripes); err != nil {
		t.Fatal(err)
	}
	waitReady(t, a, b)
	for _, set := range []engine.Set{all, its} {
		if n, err := set.Add(ctx, storetest.Keys(set, items, restored), make([]bool, restored)); n != 0 || err != nil {
			t.Errorf("%d of %d items that were restored are new, %v", n, restored, err)
		}
	}
}

// A restore of the archive within a resync does not wait for another resync.
func TestRestoreInResync(t *testing.T) {
	t.Parallel()
	const items, restored = 20_000, 100
	server := redistest.Start(t)
	var archive atomic.Pointer[[][]byte]
	store, _ := opened(t, config(server.Addr), func(s *Store) {
		s.RestoreWith(func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error {
			if spec != grows {
				return nil
			}
			return restore(ctx, bits, *archive.Load())
		})
	})
	set := grown(t, store, items)
	stripes := archived(t, set, items, restored)
	archive.Store(&stripes)
	server.CLI("flushall")
	addUntilAnswered(t, set, items+restored, 1)
	if n, err := set.Add(context.Background(), storetest.Keys(set, 0, items+restored), make([]bool, items+restored)); n != 0 || err != nil {
		t.Errorf("%d of %d items that were added or archived are new, %v", n, items+restored, err)
	}
}
