// Package chaos puts daemons through faults while callers use them, and has package history
// judge what the callers were told.
//
// A campaign is a series of rounds, each with fresh servers of one store. In a round
// callers go through the real clients (Go, and Python in a process of its own) to daemons
// that are processes of the real program; a nemesis makes the faults; at the end all is
// repaired, every daemon must become ready, and every item that was ever sent is asked for
// once more, so that one that was lost shows.
//
// # Faults
//
//	kill, term   a daemon is killed, or told to stop, and started again
//	stop         a daemon is halted (SIGSTOP) for a while
//	cut          connections between callers and a daemon break, at any byte
//	clock        a daemon's wall clock is set forward or back
//	drop         a filter is dropped, and made again under its name
//	archive      filters are written back and restored, while the archive comes and goes
//	redis-kill   Redis is killed and started again, with its append-only file
//	redis-stop   Redis is halted for a while
//	redis-slow   Redis answers late
//	redis-cut    connections between a daemon and Redis break, at any byte
//	redis-part   a daemon and Redis do not reach each other: a proxy passes nothing on
//	redis-net    the same by packets that are lost: the daemon has a network namespace of
//	             its own, whose cable is pulled; only where such can be made (root on Linux)
//	redis-full   Redis refuses writes: out of memory
//	redis-empty  Redis is emptied
//	failover     the master is killed, or told to hand over; sentinels choose the replica
//	reshard      slots move between the masters of a cluster
//
// Faults overlap, except where the documents promise nothing: while Redis lacks data, and
// until it is resynced, daemons are left alone, for what only one of them knew would be lost
// with it. Items that expire, and were accepted by a daemon that is gone when Redis loses
// its data, may be new again; history knows.
//
// # Tight mirrors
//
// In rounds with Redis whose seed is a multiple of three, two of three daemons have the least redis.mirror_bytes, and
// filters that leave hardly any of it to others. They never empty Redis: what mirrors let go of would be lost.
//
// # What a seed gives
//
// The seed determines which fault is when, where and how long, and each caller's choices. It
// does not determine how the processes of the machine are scheduled: a run with the same
// seed does the same things, and may find something else.
//
// # What is not covered
//
// Power loss and bad disks (see package journal's tests), and clocks that run at another
// pace. A wall clock is stepped in a program whose package time is replaced at build time,
// since Go reads the clock without a library that could be put before it, and a time
// namespace of Linux does not shift the wall clock. The clock of Redis is left alone.
// With sentinels and a cluster, whose servers name their own addresses, there are no links
// to break between a daemon and Redis, nor between the servers.
package chaos
