//go:build unix

package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/history"
)

// fault is something that a nemesis can do.
type fault struct {
	name   string
	weight int
	stores []string // nil: all
	// holds names what no other fault may touch meanwhile, beside what alone says; nil: nothing.
	holds func(n *nemesis, e event) string
	// alone says that no other fault is under way meanwhile.
	alone bool
	// empties says that Redis is empty afterwards: what a bounded mirror has evicted is lost then.
	empties bool
	do      func(ctx context.Context, n *nemesis, e event) bool // false: it could not be done
}

// event is a fault with its place in the schedule.
type event struct {
	*fault
	after  time.Duration // since the event before
	target int           // which daemon or server, modulo their number
	length time.Duration
	coin   bool
}

// faults lists them all, in the order of the package comment.
func faults() []*fault {
	return []*fault{
		{name: "kill", weight: 12, holds: aDaemon(""), do: kill},
		{name: "term", weight: 2, holds: aDaemon(""), do: term},
		{name: "stop", weight: 3, holds: aDaemon(""), do: halt},
		{name: "cut", weight: 4, holds: aDaemon("front "), do: cut},
		{name: "clock", weight: 2, holds: aDaemon("clock "), do: stepClock},
		{name: "drop", weight: 2, alone: true, do: drop},
		{name: "clear", weight: 2, alone: true, do: clearFilter},
		{name: "archive", weight: 1, holds: the("archive"), do: archiveAway},
		{name: "redis-kill", weight: 2, stores: []string{"redis", "cluster"}, holds: aServer, do: redisKill},
		{name: "redis-stop", weight: 1, stores: []string{"redis", "cluster"}, holds: aServer, do: redisStop},
		{name: "redis-slow", weight: 1, stores: []string{"redis"}, do: slowLink},
		{name: "redis-cut", weight: 4, stores: []string{"redis"}, holds: aDaemon("link "), do: cutLink},
		{name: "redis-part", weight: 2, stores: []string{"redis"}, holds: aDaemon("link "), do: holdLink},
		{name: "redis-net", weight: 2, stores: []string{"redis"}, holds: aDaemon("link "), do: redisUnplugged},
		{name: "redis-full", weight: 1, stores: []string{"redis"}, holds: aServer, do: redisFull},
		{name: "redis-empty", weight: 2, stores: []string{"redis", "cluster"}, alone: true, empties: true, do: redisEmpty},
		{name: "mysql-kill", weight: 4, stores: []string{"mysql"}, holds: the("mysql"), do: mysqlKill},
		{name: "mysql-stop", weight: 2, stores: []string{"mysql"}, holds: the("mysql"), do: mysqlStop},
		{name: "mysql-slow", weight: 1, stores: []string{"mysql"}, do: slowLink},
		{name: "mysql-cut", weight: 4, stores: []string{"mysql"}, holds: aDaemon("link "), do: cutLink},
		{name: "mysql-part", weight: 2, stores: []string{"mysql"}, holds: aDaemon("link "), do: holdLink},
		{name: "failover", weight: 3, stores: []string{"sentinel"}, alone: true, do: failover},
		{name: "reshard", weight: 3, stores: []string{"cluster"}, holds: the("slots"), do: reshard},
	}
}

// aDaemon is for a fault of one daemon, or of that part of it.
func aDaemon(part string) func(*nemesis, event) string {
	return func(n *nemesis, e event) string { return part + n.daemonOf(e).name }
}

func aServer(n *nemesis, e event) string { return fmt.Sprint("redis ", e.target%len(n.rig.servers)) }

func the(name string) func(*nemesis, event) string {
	return func(*nemesis, event) string { return name }
}

// Faults are the names of all faults.
func Faults() []string {
	var names []string
	for _, f := range faults() {
		names = append(names, f.name)
	}
	return names
}

// nemesis makes the faults of a round.
type nemesis struct {
	*round
	events []*fault // that the store can have, each as often as its weight
	rnd    *rand.Rand

	alone sync.RWMutex // locked for writing by a fault that is alone
	locks sync.Map     // of targets: *sync.Mutex by name

	mu     sync.Mutex
	faults []history.Fault
	losses []history.Loss
	wall   map[string]time.Duration // how far the clocks of daemons are off
}

func newNemesis(r *round) *nemesis {
	n := &nemesis{round: r, rnd: rand.New(rand.NewPCG(r.seed, 77)), wall: map[string]time.Duration{}}
	for _, f := range faults() {
		if r.campaign.has(f.name) && (f.stores == nil || slices.Contains(f.stores, r.store)) && !(f.empties && r.bounded) {
			r.campaign.possible[f.name] = true
			for range f.weight {
				n.events = append(n.events, f)
			}
		}
	}
	return n
}

// next draws an event. It draws the same numbers whatever becomes of the event.
func (n *nemesis) next() event {
	return event{
		fault:  n.events[n.rnd.IntN(len(n.events))],
		after:  time.Duration(n.rnd.IntN(n.campaign.gap())) * time.Millisecond,
		target: n.rnd.IntN(60),
		length: time.Duration(50+n.rnd.IntN(1<<(8+n.rnd.IntN(6)))) * time.Millisecond,
		coin:   n.rnd.IntN(2) == 0,
	}
}

// run makes faults until ctx ends, and returns when all are over.
func (n *nemesis) run(ctx context.Context) {
	var work sync.WaitGroup
	for ctx.Err() == nil && len(n.events) > 0 {
		e := n.next()
		pause(ctx, e.after)
		lock, unlock := n.alone.RLock, n.alone.RUnlock
		if e.alone {
			lock, unlock = n.alone.Lock, n.alone.Unlock
		}
		lock()
		if ctx.Err() != nil {
			unlock()
			break
		}
		work.Go(func() {
			defer unlock()
			from := n.elapsed()
			if !n.do(ctx, e) {
				n.missedFault(e.name)
				return
			}
			n.note(e.name, n.targetOf(e), from)
		})
		if e.alone {
			work.Wait()
		}
	}
	work.Wait()
}

func (n *nemesis) note(name, target string, from time.Duration) {
	n.mu.Lock()
	n.faults = append(n.faults, history.Fault{Name: name, Target: target, From: from, To: n.elapsed()})
	n.mu.Unlock()
	n.countFault(name)
}

// targetOf returns the name of the target of an event, for people.
func (n *nemesis) targetOf(e event) string {
	switch e.name {
	case "kill", "term", "stop", "cut", "clock", "redis-slow", "redis-cut", "redis-part", "redis-net", "mysql-slow", "mysql-cut", "mysql-part":
		return n.daemonOf(e).name
	}
	return ""
}

func (n *nemesis) daemonOf(e event) *daemon { return n.rig.daemons[e.target%len(n.rig.daemons)] }

// do makes a fault, unless another one has what it holds, so that faults do not queue.
func (n *nemesis) do(ctx context.Context, e event) bool {
	if e.holds != nil {
		m, _ := n.locks.LoadOrStore(e.holds(n, e), new(sync.Mutex))
		mu, _ := m.(*sync.Mutex)
		if !mu.TryLock() {
			return false
		}
		defer mu.Unlock()
	}
	return e.fault.do(ctx, n, e)
}
