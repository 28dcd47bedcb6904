// Package leases has the reservations of items of a filter in Redis: who holds an item and
// until when, what became of the items of a reservation, and the scripts that decide both.
//
// A group's leases are a hash that maps each held item to its holder and the end of the lease.
// The items of a group that a reservation has taken are its part: also a hash, which maps each
// of them to what became of it. A script changes item, lease and part of one group in one step,
// by the clock of the server, so that all daemons see the same, and none of them has to stay
// alive.
//
// A held item is in its place, like a seen one. So a plain SADD or SET NX does not get it,
// whatever the daemon that sends it knows about leases:
//
//   - in a timing filter it is a key whose value is the reservation, and which expires with the
//     lease: then the item is new for everybody;
//   - in an exact filter it is a member of its set like any other, and new when the lease has
//     ended. The witness of a group tells whether items of it were ever reserved
//     (forgotten.Reserved). Because the witness is read after each batch, a daemon knows from the
//     first lease on that an item that it has found may be held, and Resolves it before it answers
//     or mirrors it.
//
// A lease that has ended remains until somebody takes the item or the reservation is swept:
// until somebody has taken it, its holder may commit the item.
//
// The package does not know where items are kept.
package leases

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/forgotten"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// Leases are the leases of one filter.
type Leases struct {
	servers *servers.Servers
	log     *forgotten.Log
	expires string // "1": items are keys that expire; "0": members of sets
}

// New returns the leases of a filter with that log; expires: the items are keys that expire.
func New(s *servers.Servers, log *forgotten.Log, expires bool) *Leases {
	l := &Leases{servers: s, log: log, expires: "0"}
	if expires {
		l.expires = "1"
	}
	return l
}

// dueKey returns the key of a sorted set of the reservations that have a part in group g, by
// when they are due to be swept.
func (l *Leases) dueKey(g int) string { return l.log.Witness(g) + ":reservations" }

// partKey returns the key of what a reservation has taken of group g: items, and what became of
// each; the field ':' has when the reservation was made and when it ends.
func (l *Leases) partKey(g int, id engine.Reservation) string {
	return l.log.Witness(g) + ":reserved:" + forgotten.Encode(bloom.Hash(id))
}

// What became of an item of a reservation. A lost item ('L' in the scripts) was taken by
// another, or forgotten.
const (
	held      = "H"
	committed = "C"
	released  = "R"
)

// keysOf returns the keys of a group's leases and of a reservation's part, for a script.
func (l *Leases) keysOf(id engine.Reservation) func(g int) []string {
	return func(g int) []string {
		return []string{l.log.Witness(g), l.log.LeasesKey(g), l.dueKey(g), l.partKey(g, id)}
	}
}

// parts uses c to read what a reservation has taken of each group: an empty map if that is
// nothing.
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
