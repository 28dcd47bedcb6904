package redis

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// spread is a filter with stripes on all masters of a cluster.
var spread = engine.Spec{ID: 4, Name: "spread", Kind: "bloom", Params: configs.Bloom{Capacity: 12_000_000, ErrorRate: 1e-4, OnFull: "warn"}}

// Masters are flushed after one of two daemons has put back what it knows, while the other is about to do so.
// Neither would find anything missing when the latter has made all stripes anew. Before, the archive is asked for
// a stripe that was lost, which is when this test flushes.
func TestFlushedDuringResync(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	masters := redistest.Cluster(t, nil)
	var flushes atomic.Int64
	flush := func(s *Store) {
		s.restore = func(ctx context.Context, spec engine.Spec, _ engine.BitMap) error {
			if spec != uri || flushes.Load() > 0 {
				return nil
			}
			for announced := false; !announced && ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
				for _, master := range masters {
					for key := range strings.Lines(master.CLI("--scan", "--pattern", insync.Resynced+"*")) {
						n, err := s.servers.Admin.SCard(ctx, strings.TrimSpace(key)).Result()
						if err != nil {
							return err
						}
						others, err := s.servers.Admin.SIsMember(ctx, strings.TrimSpace(key), s.members.Self).Result()
						if err != nil {
							return err
						}
						announced = announced || n == 1 && !others
					}
				}
			}
			flushes.Add(1)
			for _, master := range masters {
				// Daemons notice that the incarnation or the registry is gone.
				if strings.HasPrefix(master.CLI("get", insync.IncarnationKey), "MOVED") && strings.HasPrefix(master.CLI("hlen", registry.Key), "MOVED") {
					master.CLI("flushall")
				}
			}
			return ctx.Err()
		}
	}
	const each = 500
	var stores []*Store
	var sets []engine.Set
	var first *bitmap.Set
	for range 2 {
		s, set := opened(t, config(masters[0].Addr), flush)
		made, err := s.Create(ctx, spread, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		stores, sets, first = append(stores, s), append(sets, made), set
	}
	waitReady(t, stores...)
	meet(t, stores...)
	for i, set := range sets {
		addOnceInSync(t, set, i*each, each)
	}
	// One stripe, so that only one daemon finds something missing and asks the archive.
	if err := stores[0].servers.Admin.Del(ctx, first.StripeKeys()[0]).Err(); err != nil {
		t.Fatal(err)
	}
	stores[0].state.Invalidate(insync.ErrLost) // as if somebody had asked that filter
	for i, set := range sets {
		if n := addOnceInSync(t, set, (1-i)*each, each); n != 0 {
			t.Errorf("%d items of the other daemon are new again for daemon %d", n, i)
		}
	}
	if n := flushes.Load(); n != 1 {
		t.Errorf("%d flushes during the resync, want 1", n)
	}
}

// A daemon's announcement is lost while it waits for others, who may not have read it: they would wait for it.
func TestLostAnnouncement(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, _ := opened(t, config(server.Addr))
	b, _ := opened(t, config(server.Addr))
	waitReady(t, a, b)
	meet(t, a, b)
	halt(a)
	halt(b)
	ids, err := a.servers.RunIDs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inc, err := a.barrier.Incarnation(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	in := insync.Incident(ids, inc)
	server.CLI("del", insync.Stopped+in, insync.Resynced+in) // from when the daemons were started
	waits := make(chan error, 1)
	go func() { waits <- a.barrier.Together(ctx, insync.Stopped, in) }()
	for server.CLI("del", insync.Stopped+in) == "0" {
		time.Sleep(5 * time.Millisecond)
	}
	if err := <-waits; !errors.Is(err, insync.ErrLostAgain) {
		t.Errorf("got %v, want ErrLostAgain", err)
	}
}

// A master comes back that was one before, and has not been restarted since, as after a planned failover. What it
// lacks is put back by all daemons before one of them answers.
func TestMasterComesBack(t *testing.T) {
	t.Parallel()
	atOnce := []string{"--repl-diskless-sync-delay", "0"}
	first, second := redistest.Start(t, atOnce...), redistest.Start(t, atOnce...)
	var master atomic.Pointer[redistest.Server]
	master.Store(first)
	relay, err := testserver.NewRelay("127.0.0.1", func() (net.Conn, error) { return net.Dial("tcp", master.Load().Addr) }, func(client, server net.Conn) {
		go func() {
			_, _ = io.Copy(server, client)
			_ = server.Close()
		}()
		_, _ = io.Copy(client, server)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(relay.Close)
	a, ours := opened(t, config(relay.Addr))
	b, theirs := opened(t, config(relay.Addr))
	meet(t, a, b)
	follow := func(replica, of *redistest.Server) {
		host, port, _ := net.SplitHostPort(of.Addr)
		replica.CLI("replicaof", host, port)
		testserver.Await(t, "a replica has everything", func() bool { return strings.Contains(replica.CLI("info", "replication"), "master_link_status:up") })
	}
	handOver := func(to *redistest.Server) {
		to.CLI("replicaof", "no", "one")
		master.Store(to)
		relay.Break()
	}
	follow(second, first)
	handOver(second)
	testserver.Await(t, "both know the new master", func() bool {
		ids, err := a.servers.RunIDs(t.Context())
		return err == nil && !a.state.AnyNew(ids) && !b.state.AnyNew(ids)
	})
	waitReady(t, a, b)
	follow(first, second)
	first.CLI("replicaof", "no", "one") // cut off: it does not receive what follows
	if n := add(t, ours, 0, 100); n != 100 {
		t.Fatalf("%d items are new, want 100", n)
	}
	a.state.Flight.RLock() // a batch is under way
	handOver(first)
	answered := make(chan int, 1)
	go func() {
		isNew, _ := addUntilAnswered(t, theirs, 0, 100)
		answered <- countOf(isNew)
	}()
	testserver.Await(t, "the other daemon waits", func() bool {
		_, err := b.state.Check()
		return len(answered) > 0 || err != nil && strings.Contains(err.Error(), "waiting for other daemons")
	})
	a.state.Flight.RUnlock()
	if n := <-answered; n != 0 {
		t.Errorf("%d acknowledged items are new again", n)
	}
}

// Another daemon finds that Redis has lost data while one starts: the start goes on with what is resynced then.
func TestLossDuringAStart(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	server := redistest.Start(t)
	a, _ := opened(t, config(server.Addr))
	ids, err := a.servers.RunIDs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	inc, err := a.barrier.Incarnation(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Close()
	const other = "other:1:0000"
	server.CLI("hset", "urifilter:members", other, "1") // it does not take part in the resync yet
	b, err := Open(ctx, config(server.Addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	started := make(chan error, 1)
	go func() {
		_, err := b.Load(ctx)
		started <- err
	}()
	waits := func(inc string) {
		t.Helper()
		for deadline := time.Now().Add(5 * time.Minute); server.CLI("sismember", insync.Stopped+insync.Incident(ids, inc), b.members.Self) != "1"; time.Sleep(5 * time.Millisecond) {
			select {
			case err := <-started:
				t.Fatalf("it does not wait for the other daemon: %v", err)
			default:
			}
			if time.Now().After(deadline) {
				t.Fatal("it is not announced")
			}
		}
	}
	waits(inc)
	server.CLI("set", insync.IncarnationKey, "next")
	waits("next")
	server.CLI("hset", "urifilter:members", other, "left 2")
	if err := <-started; err != nil {
		t.Error(err)
	}
}

// An operator flushes the masters of a cluster one after the other. Some lose their data while the daemons
// resync that of others: what a daemon has put back is lost again, as are its announcements. No item is new
// twice, and no daemon waits in vain for another.
func TestNoRaceMastersFlushedOneByOne(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	masters := redistest.Cluster(t, nil)
	var stores []*Store
	var sets []engine.Set
	for range 2 {
		s, _ := opened(t, config(masters[0].Addr))
		set, err := s.Create(ctx, spread, storetest.Identity())
		if err != nil {
			t.Fatal(err)
		}
		stores, sets = append(stores, s), append(sets, set)
	}
	waitReady(t, stores...)
	meet(t, stores...)
	random := rand.New(rand.NewPCG(1, 2))
	const each = 500
	for round := range 8 {
		for i, set := range sets {
			addOnceInSync(t, set, (2*round+i)*each, each)
		}
		began := time.Now()
		for _, n := range random.Perm(len(masters)) {
			masters[n].CLI("flushall")
			_, err := sets[random.IntN(2)].Add(ctx, storetest.Keys(sets[0], 0, 1), make([]bool, 1))
			if err != nil && !errors.Is(err, engine.ErrUnavailable) && !errors.Is(err, engine.ErrInDoubt) {
				t.Fatal(err)
			}
			time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		}
		for i, set := range slices.Backward(sets) {
			if n := addOnceInSync(t, set, (2*round+1-i)*each, each); n != 0 {
				t.Errorf("round %d: %d items of the other daemon are new again for daemon %d", round, n, i)
			}
		}
		t.Log("round", round, time.Since(began).Round(time.Millisecond))
	}
}

// A daemon that has items of which no caller was told is cut off, Redis loses its data, and the others
// go on without that daemon: when it comes back, no item is new a second time.
func TestAbandonedDaemonGivesNothingOutTwice(t *testing.T) {
	t.Parallel()
	for name, losses := range map[string]int{"one loss": 1, "two losses": 2} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testAbandoned(t, losses)
		})
	}
}

func testAbandoned(t *testing.T, losses int) {
	server := redistest.Start(t)
	line := testserver.NewCutter(t, server.Addr)
	c := config(server.Addr)
	c.peerDead = members.PeerDead
	storeA, a := opened(t, c)
	storeB, b := opened(t, config(line.Addr))
	meet(t, storeA, storeB)
	const n = 300
	line.Cut(0) // B receives nothing more
	b.Unacknowledge(storetest.Keys(b, 0, n))
	w := wins{}
	for i := range losses {
		server.CLI("flushall")
		isNew, _ := addUntilAnswered(t, a, i*n, n) // when B has been silent for long enough
		w.note(i*n, isNew)
	}
	line.Pass()
	waitReady(t, storeA, storeB)
	for _, set := range []*bitmap.Set{b, a, b} {
		isNew, _ := addUntilAnswered(t, set, 0, n)
		w.note(0, isNew)
		publishNow(t, b, storeA)
	}
	for i := range n {
		if w[i] > 1 {
			t.Fatalf("item %d was new %d times", i, w[i])
		}
	}
}
