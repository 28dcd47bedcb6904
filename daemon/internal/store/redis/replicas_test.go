package redis

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// A batch that no replica confirms is not answered. Its items are new once when a replica does.
func TestReplicasConfirm(t *testing.T) {
	t.Parallel()
	forEachKind(t, func(t *testing.T, open func(testing.TB, Config) (*Store, engine.Set)) {
		sentinel, master, replica := redistest.Sentinels(t, nil)
		c := config(sentinel.Addr)
		c.MasterName, c.Replicas = "mymaster", 1
		_, s := open(t, c)
		first := 0
		for deadline := time.Now().Add(5 * time.Minute); ; first += 10_000 {
			n, err := s.Add(context.Background(), storetest.Keys(s, first, 5000), make([]bool, 5000))
			if errors.Is(err, servers.ErrTooFewReplicas) && time.Now().Before(deadline) {
				continue // the replica of a busy machine confirms late: with others
			}
			if n < 4990 || err != nil {
				t.Fatalf("%d of 5000 are new, %v", n, err)
			}
			break
		}
		mirrored := 5000
		if m, ok := s.(base.Mirroring); ok && m.Mirror().Partial {
			mirrored = 8 // the last ones asked for: as many as a set of the mirror holds
			if n, err := s.Add(context.Background(), storetest.Keys(s, first, mirrored), make([]bool, mirrored)); n != 0 || err != nil {
				t.Fatalf("%d of %d duplicates are new, %v", n, mirrored, err)
			}
		}
		replica.Signal(syscall.SIGSTOP)
		keys, isNew := storetest.Keys(s, first+5000, 100), make([]bool, 100)
		if _, err := s.Add(context.Background(), keys, isNew); !errors.Is(err, engine.ErrInDoubt) || !errors.Is(err, engine.ErrUnavailable) || !errors.Is(err, servers.ErrTooFewReplicas) {
			t.Errorf("no replica confirms: %v", err)
		}
		if n, err := s.Add(context.Background(), storetest.Keys(s, first, mirrored), make([]bool, mirrored)); n != 0 || err != nil {
			t.Errorf("duplicates that the mirror has: %d new, %v", n, err)
		}
		replica.Signal(syscall.SIGCONT)
		w := wins{}
		for range 2 {
			isNew, _ := addUntilAnswered(t, s, first+5000, 100)
			w.note(first+5000, isNew)
		}
		for i := first + 5000; i < first+5100; i++ {
			if w[i] != 1 {
				t.Fatalf("item %d was new %d times", i, w[i])
			}
		}
		testserver.Await(t, "the replica has what the master has", func() bool { return master.CLI("dbsize") == replica.CLI("dbsize") })
	})
	t.Run("cluster", func(t *testing.T) {
		t.Parallel()
		c := config(redistest.Cluster(t, nil)[0].Addr)
		c.Replicas = 1
		if _, err := Open(context.Background(), c); err == nil || !strings.Contains(err.Error(), "redis.replicas") {
			t.Errorf("got %v", err)
		}
	})
}
