// Package downloads kills the downloader at random while jobs and URIs come in and pages are fetched,
// and then compares what it has stored with what it was given and with what the servers saw:
//
//   - each acknowledged URI has one task, and each task has ended: done with one result, the very
//     page of its URI, or failed with a reason; none is stuck;
//   - a task counts as many attempts as its log has, numbered from 1, and as many abandoned leases;
//     its server saw each attempt, and no requests but those of attempts, of abandoned leases, of
//     tasks that were given back at a stop or when their shard was lost, and those that were sent
//     once more because the server had closed a kept connection without an answer;
//   - a URI that the filter falsely took for seen is no task, was never requested, and was counted;
//   - a job that was dropped while its tasks ran leaves nothing, and no worker continues it;
//   - no host was called sooner after the last request than the job's delay allows, or more often
//     at once than its concurrency allows, even across the ends of processes.
//
// The downloader is one process, or one for each role, with a filter daemon, a Redis that restarts
// empty and, if wanted, a store in MongoDB that restarts with its data; each of these is killed.
// The programs are the real ones, and the hosts are addresses of this machine, each with a server
// that records when it is called. Power cuts and failing disks are not part of this; package sqlite
// tests those.
//
// # What a seed gives
//
// The seed determines the URIs, their batches, and the choices and pauses of the killer. It does
// not determine how processes are scheduled.
package downloads
