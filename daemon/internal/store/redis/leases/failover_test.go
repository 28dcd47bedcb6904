package leases_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	redisstore "github.com/cr-clawer/urifilter/daemon/internal/store/redis"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// replicated opens a daemon's store, which answers only when a replica has the data, and makes or finds a filter.
func replicated(t *testing.T, sentinel string, spec engine.Spec) engine.Reserving {
	t.Helper()
	_, set := openedBy(t, redisstore.Options{Addrs: []string{sentinel}, MasterName: "mymaster", Replicas: 1, Timeout: time.Minute}, spec)
	return set
}

// awaitMaster waits until the sentinel names a server as the master and the server agrees: while it is being
// promoted it can still be made a replica again.
func awaitMaster(t *testing.T, sentinel, s *redistest.Server) {
	t.Helper()
	testserver.Await(t, s.Addr+" is the master", func() bool { return toldMaster(sentinel) == s.Addr && isMaster(s) })
}

func toldMaster(sentinel *redistest.Server) string {
	return strings.Join(strings.Fields(sentinel.CLI("sentinel", "get-master-addr-by-name", "mymaster")), ":")
}

func isMaster(s *redistest.Server) bool {
	return strings.Contains(s.CLI("info", "replication"), "role:master")
}

// settled waits until one of two servers is the master and the other follows it, and returns them in this
// order. The master need not be the promoted one: a sentinel can also mistake live servers for dead.
func settled(t *testing.T, sentinel, a, b *redistest.Server) (master, replica *redistest.Server) {
	t.Helper()
	testserver.Await(t, "one server follows the other", func() bool {
		master, replica = a, b
		if toldMaster(sentinel) == b.Addr {
			master, replica = b, a
		}
		info := replica.CLI("info", "replication")
		return isMaster(master) && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up")
	})
	return master, replica
}

// loseLast withholds from a replica what its master does, until something has been done.
func loseLast(t *testing.T, master, replica *redistest.Server) {
	t.Helper()
	replica.CLI("replicaof", "no", "one")
	offset := func() (n int) {
		_, text, _ := strings.Cut(master.CLI("info", "replication"), "master_repl_offset:")
		_, _ = fmt.Sscan(text, &n)
		return n
	}
	from := offset()
	for deadline := time.Now().Add(5 * time.Minute); offset() < from+20_000; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Error("nobody changes anything")
			break
		}
	}
	host, port, _ := net.SplitHostPort(master.Addr)
	replica.CLI("replicaof", host, port) // for the sentinel; the first copy comes after seconds
}

// Masters are killed under callers, and replicas that lack the latest changes replace them: with
// redis.replicas nothing is lost of which a caller was told, including leases.
func TestSystemReservingOverFailovers(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			sentinel, master, replica := redistest.Sentinels(t, nil)
			// Half a second is too short on a busy machine: a restarted master that has no data yet would be made
			// the master in place of a live one.
			sentinel.CLI("sentinel", "set", "mymaster", "down-after-milliseconds", "5000")
			a, b := replicated(t, sentinel.Addr, spec), replicated(t, sentinel.Addr, spec)
			l := leasetest.New(3000, clock(t, master.Addr)) // this machine's, whichever server returns it
			race(t, l, []engine.Reserving{a, b}, func(answered func(int)) {
				for range 2 {
					answered(200)
					loseLast(t, master, replica)
					master.Kill()
					awaitMaster(t, sentinel, replica)
					master.Run()
					master, replica = settled(t, sentinel, replica, master)
				}
				answered(200)
			})
			l.Check(t, leasetest.Set{Reserving: b})
		})
	}
}

// A master of a cluster is killed under callers and restarted with what it has on its disk.
func TestReservingInAClusterWhoseMasterDies(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.Cluster(t, nil)
			_, a := opened(t, nodes[0].Addr, spec)
			_, b := opened(t, nodes[0].Addr, spec)
			l := leasetest.New(3000, clock(t, nodes[0].Addr))
			race(t, l, []engine.Reserving{a, b}, func(answered func(int)) {
				for _, node := range []*redistest.Server{nodes[1], nodes[2], nodes[0]} {
					answered(150)
					node.Kill()
					node.Run()
				}
				answered(150)
			})
			l.Check(t, leasetest.Set{Reserving: b})
		})
	}
}
