package redis

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// Daemons whose clocks differ by hours wait for each other, even if a clock is set while they
// run. They wait for a killed daemon no longer than a daemon may be silent.
func TestResyncWaitsWhateverClocksSay(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	// Written by daemons that were killed: one long ago, one with a clock that is ahead.
	server.CLI("hset", "urifilter:members", "killed:1:a", "1700000000000", "killed:2:b", "4000000000000")
	open := func(ahead time.Duration) (*Store, *bitmap.Set) {
		c := config(server.Addr)
		c.peerDead = 3 * members.PeerDead // an overloaded machine must not make one of them count as dead
		return opened(t, c, func(s *Store) {
			s.members.Wall = func() time.Time { return time.Now().Add(ahead) }
		})
	}
	storeA, a := open(0)
	storeB, b := open(-3 * time.Hour)
	storeC, c := open(5 * time.Hour)
	add(t, a, 0, 1000)
	add(t, b, 1000, 1000)
	add(t, c, 2000, 1000)
	for _, hangs := range []*Store{storeB, storeC} {
		testserver.Await(t, "a daemon is seen by its heartbeat", func() bool { return slices.Contains(storeA.members.Alive(), hangs.members.Self) })
		inSync(t, server, storeA, storeB, storeC)
		// One of them hangs in the middle of a batch while Redis is flushed.
		hangs.state.Flight.RLock()
		server.CLI("flushall")
		for deadline := time.Now().Add(5 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
			err := storeA.Ready(context.Background())
			if err != nil && strings.Contains(err.Error(), "waiting for other daemons") && strings.Contains(err.Error(), hangs.members.Self) {
				break
			}
			// In sync with the flushed Redis, not through a late resync from before the flush.
			if err == nil && isCurrent(server, storeA) || time.Now().After(deadline) {
				hangs.state.Flight.RUnlock()
				t.Fatalf("nobody waits for a daemon whose clock is wrong: %v", err)
			}
			_, _ = a.Add(context.Background(), storetest.Keys(a, 5000, 100), make([]bool, 100)) // finds the loss
		}
		hangs.state.Flight.RUnlock()
		waitReady(t, storeA, storeB, storeC)
		for _, s := range []*bitmap.Set{a, b, c} {
			if n := add(t, s, 0, 3000); n != 0 {
				t.Errorf("%d acknowledged items are new again", n)
			}
		}
	}
}

// inSync waits until all daemons are in sync with the data that Redis has now.
func inSync(t testing.TB, server *redistest.Server, stores ...*Store) {
	t.Helper()
	testserver.Await(t, "all are in sync", func() bool {
		return !slices.ContainsFunc(stores, func(s *Store) bool {
			_, err := s.state.Check()
			return err != nil || !isCurrent(server, s)
		})
	})
}

// isCurrent reports whether the daemon was in sync with the data that Redis has now.
func isCurrent(server *redistest.Server, s *Store) bool {
	now := strings.TrimSpace(server.CLI("get", insync.IncarnationKey))
	return now != "" && s.state.IsCurrent(now)
}
