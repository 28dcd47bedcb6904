// Package campaign kills the downloader at random while jobs and URIs come in and pages are fetched,
// and then holds what it has stored against what it was given and against what the servers saw:
//
//   - each URI whose answer came has one task, and each task has ended: done with one result, the very
//     page of its URI, or failed with a reason; none is stuck;
//   - the attempts of a task are as many as its log has, numbered from 1, and its abandoned leases too;
//     its server saw each attempt, and no request beside those of attempts, of leases that were abandoned
//     and of what was given back at a stop;
//   - a URI that the filter falsely took for seen is no task, was never asked for, and was counted;
//   - a job that was dropped while its tasks ran leaves nothing, and no worker goes on with it;
//   - no host was asked sooner after the request before than the job's delay says, or for more at once
//     than the job's concurrency, across the ends of processes too.
//
// The downloader is one process, or its roles are apart, with a daemon of filters, a Redis that comes back
// empty and, if asked for, a store in MongoDB that comes back with its data; each of these is struck. The
// programs are processes of the real ones, and the hosts are addresses of this machine, each with a
// server that notes when it is asked. Power cuts and failing disks are not part of this; package
// sqlite tries those.
//
// # What a seed gives
//
// The seed determines the URIs, in what batches they come, and the choices and pauses of what kills. It
// does not determine how processes are scheduled.
package campaign
