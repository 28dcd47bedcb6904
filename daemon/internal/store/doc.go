// Package store is the room of where filters are kept: a package for each store, all behind the
// contract engine.Store. The folder itself has no code.
//
//   - embedded keeps them on this machine: memory, a file of it, and a journal of what the file does
//     not have yet (embedded/journal). A batch waits for the sync that covers its items and those
//     that it has seen; one sync serves all that wait. Bits only go from 0 to 1, so a file may be any
//     mixture of before and after, and the journal does the rest.
//   - redis keeps them in a Redis, with sentinels, or a cluster, shared by several daemons. Its doc.go
//     has the keys. A test-and-set is one command in Redis; the mirrors here only save asking for what
//     is known to be set. If Redis has lost data, the daemons stop together, put back what they know,
//     and go on.
//   - mysql keeps filters of the kind exact in MariaDB, a table each.
//   - shared has what redis and mysql do alike: quarantine, ids, the error of what is in doubt.
//   - joined makes one store of the daemon's own and of the one beside it.
//
// What a store promises stands in engine/store.go, at each method: what is durable on return, what is
// certain after an error. testkit/storetest is one suite that all of them pass; testkit/powerloss and
// testkit/chaos are what they survive.
//
// Stores know no protocol and no archive, and do not import each other, except that joined has two of
// the others, and redis and mysql import shared. Begin with embedded/set.go and diskfilter.go.
package store
