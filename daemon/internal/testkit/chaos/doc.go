// Package chaos puts daemons through faults while callers use them, and has package history
// judge what the callers were told.
//
// A campaign is a series of rounds, each with fresh servers of one store. In a round callers use
// the real clients (Go, Python in a process of its own, and one of Redis) to call daemons that are processes of
// the real program, and a nemesis makes the faults. At the end everything is repaired, every daemon
// must become ready, and every item that does not expire is asked for again, so that lost items show.
//
// # Faults
//
//	kill, term   a daemon is killed, or told to stop, and started again
//	stop         a daemon is halted (SIGSTOP) for a while
//	cut          connections between callers and a daemon break, at any byte
//	clock        a daemon's wall clock is set forward or back
//	drop         a filter is dropped, and created again under its name
//	clear        a filter is cleared
//	archive      filters are written back and restored, while the archive comes and goes
//	redis-kill   Redis is killed and started again, with its append-only file
//	redis-stop   Redis is halted for a while
//	redis-slow   Redis answers late
//	redis-cut    connections between a daemon and Redis break, at any byte
//	redis-part   a daemon and Redis cannot reach each other: a proxy passes nothing on
//	redis-net    the same through lost packets: the daemon has a network namespace of its
//	             own, whose cable is pulled; only where one can be made (root on Linux)
//	redis-full   Redis refuses writes: out of memory
//	redis-empty  Redis is emptied
//	mysql-kill, mysql-stop, mysql-slow, mysql-cut, mysql-part  the same with MariaDB
//	failover     the master is killed, or told to hand over; sentinels choose the replica
//	reshard      slots move between the masters of a cluster
//
// Faults overlap, except where the documents promise nothing: while Redis lacks data, and
// until it is resynced, daemons are left alone, because what only one of them knew would be
// lost with it. Items that expire, and that were accepted by a daemon that is gone when Redis
// loses its data, may be new again; package history allows for that.
//
// # Tight mirrors
//
// In rounds with Redis whose seed is a multiple of three, two of three daemons have the least
// redis.mirror_bytes, and filters that leave hardly any of it to others. These rounds never
// empty Redis: what mirrors have evicted would be lost.
//
// # What a seed gives
//
// The seed determines which faults happen, when, where and for how long, and each caller's
// choices. It does not determine how the machine schedules its processes: a run with the same
// seed does the same things, and may find something else.
//
// # What is not covered
//
// Power loss and bad disks (see package journal's tests), and clocks that run too fast or too
// slowly. To step a wall clock, package time is replaced when the program is built, because Go
// reads the clock without a library that could be preloaded, and a time namespace of Linux
// does not shift the wall clock. The clock of Redis is left alone.
// With sentinels and a cluster, whose servers name their own addresses, there are no links
// to break between a daemon and Redis, nor between the servers.
package chaos
