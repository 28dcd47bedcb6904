// Package server is the filter daemon: it opens secrets, sockets, store, archive and engine as the
// settings say, serves HTTP and RESP, and shuts down. It makes no decisions about items.
//
// It is the only package that knows fronts and stores. New opens the ports first, so that a mistake
// there is told at once and callers queue instead of being refused, and then the store; Run serves
// until its context ends or something fails; shutdown fails readiness, answers what is under way, and
// closes the store last. A store that has failed ends the process: only a new start knows again what
// is on the disk.
//
// Goroutines: each connection has one. The embedded store has three (the sync of durability interval,
// checkpoints, sweeps), and its journals start one now and then. The Redis store has six (resync,
// heartbeats and changes of others, counting, sweeps, removal of dropped keys, unacknowledged items),
// the MariaDB store two. Here are one that warns of full filters, one that samples their rates, one that adopts filters of other
// daemons, two that talk to systemd, and with an archive two more. Whoever starts one waits for it.
package server
