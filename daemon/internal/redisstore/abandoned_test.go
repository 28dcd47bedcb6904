package redisstore

import (
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/bitmap"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/members"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testserver"
)

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
