// Package leases has the reservations of items of a filter in Redis: who holds an item and until
// when, what became of the items of a reservation, and the scripts that decide both.
//
// A group's leases are a hash, from each item that is held to its holder and the end of the lease;
// what one reservation has taken of a group is a hash too, its part, from each of its items to
// what became of it. A script changes item, lease and part of one group in one step, by the clock
// of the server, so that all daemons see the same, and none of them has to live on.
//
// An item that is held is in its place, as one that is seen. So a plain SADD or SET NX does not get it,
// whatever the daemon that sends it knows of leases:
//
//   - a timing filter's is a key whose value is the reservation, and which expires with the lease:
//     then it is new for everybody;
//   - an exact filter's is a member of its set as any other, and new when the lease has ended. The
//     witness of a group tells that items of it were ever reserved (forgotten.Reserved). As it is read
//     behind each batch, a daemon knows from the first lease on that what it has found to be
//     there may be held, and Resolves it before it answers, or mirrors it.
//
// The lease of an item stays when it has ended, until somebody takes the item or the
// reservation is let go of: as long as nobody has, its holder may commit.
//
// It does not know where items are kept, or what a mirror has.
package leases

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/redisstore/servers"
)

// Leases are one filter's.
type Leases struct {
	servers *servers.Servers
	log     *forgotten.Log
	items   forgotten.Items
	expires string // "1": items are keys that expire; "0": members of sets
}

// New is the leases of a filter that has a log and items; expires: those are keys that expire.
func New(s *servers.Servers, log *forgotten.Log, items forgotten.Items, expires bool) *Leases {
	l := &Leases{servers: s, log: log, items: items, expires: "0"}
	if expires {
		l.expires = "1"
	}
	return l
}

// dueKey is a sorted set of the reservations that have a part in group g, by when they are let go of.
func (l *Leases) dueKey(g int) string { return l.log.Witness(g) + ":reservations" }

// partKey is what a reservation has taken of group g: items, and what became of each; the field
// metaField has when it was made and when it ends.
func (l *Leases) partKey(g int, id engine.Reservation) string {
	return l.log.Witness(g) + ":reserved:" + forgotten.Encode(bloom.Hash(id))
}

// What became of an item of a reservation. lost: another has taken it, or it was forgotten.
const (
	held      = "H"
	committed = "C"
	released  = "R"
)

// keysOf are the keys of a group's leases and of a reservation's part, for a script.
func (l *Leases) keysOf(id engine.Reservation) func(g int) []string {
	return func(g int) []string {
		return []string{l.log.Witness(g), l.log.LeasesKey(g), l.dueKey(g), l.partKey(g, id)}
	}
}

// parts reads what a reservation has taken, by c: of each group an empty map where that is nothing.
func (l *Leases) parts(ctx context.Context, c redis.UniversalClient, id engine.Reservation) (all [forgotten.Groups]map[string]string, known bool, err error) {
	var cmds [forgotten.Groups]*redis.MapStringStringCmd
	_, err = c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for g := range cmds {
			cmds[g] = p.HGetAll(ctx, l.partKey(g, id))
		}
		return nil
	})
	if err != nil {
		return all, false, err
	}
	for g, cmd := range cmds {
		all[g] = cmd.Val()
		known = known || len(all[g]) > 0
	}
	return all, known, nil
}
