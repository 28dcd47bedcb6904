package leases_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/leasetest"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore"
	"github.com/cr-clawer/urifilter/daemon/internal/redistest"
)

// replicated opens a daemon's store, which answers when a replica has it, and makes or finds a filter.
func replicated(t *testing.T, sentinel string, spec engine.Spec) engine.Reserving {
	t.Helper()
	_, set := openedBy(t, redisstore.Options{Addrs: []string{sentinel}, MasterName: "mymaster", Replicas: 1, Timeout: time.Minute}, spec)
	return set
}

// awaitMaster waits until the sentinel tells that a server is the master and that one says so, too: one that is just
// being promoted can still be made a replica again.
func awaitMaster(t *testing.T, sentinel, s *redistest.Server) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); toldMaster(sentinel) != s.Addr || !isMaster(s); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the master is %s, want %s", toldMaster(sentinel), s.Addr)
		}
	}
}

func toldMaster(sentinel *redistest.Server) string {
	return strings.Join(strings.Fields(sentinel.CLI("sentinel", "get-master-addr-by-name", "mymaster")), ":")
}

func isMaster(s *redistest.Server) bool {
	return strings.Contains(s.CLI("info", "replication"), "role:master")
}

// settled waits until of two servers one is the master and the other follows it, and returns them in this
// order. It need not be the one that was promoted: a sentinel can also take living servers for dead.
func settled(t *testing.T, sentinel, a, b *redistest.Server) (master, replica *redistest.Server) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		master, replica = a, b
		if toldMaster(sentinel) == b.Addr {
			master, replica = b, a
		}
		info := replica.CLI("info", "replication")
		if isMaster(master) && strings.Contains(info, "role:slave") && strings.Contains(info, "master_link_status:up") {
			return master, replica
		}
	}
	t.Fatalf("after two minutes no server follows the other:\n%s\n%s", a.CLI("info", "replication"), b.CLI("info", "replication"))
	return nil, nil
}

// loseLast keeps from a replica what its master does until something has been done.
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

// Masters are killed under callers, and their replicas, which lack what was done last, take their place: with redis.replicas nothing that a
// caller was told of is lost, leases included.
func TestSystemReservingOverFailovers(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			sentinel, master, replica := redistest.Sentinels(t)
			// On a busy machine half a second is soon over: a master that was started again, and has nothing yet, would be
			// made the master in place of a living one.
			sentinel.CLI("sentinel", "set", "mymaster", "down-after-milliseconds", "5000")
			a, b := replicated(t, sentinel.Addr, spec), replicated(t, sentinel.Addr, spec)
			l := leasetest.New(3000, clock(t, master.Addr)) // of this machine, whichever server shows it
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

// A master of a cluster is killed under callers and started again, with what it has on its disk.
func TestReservingInAClusterWhoseMasterDies(t *testing.T) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			nodes := redistest.Cluster(t)
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
