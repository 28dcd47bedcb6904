// Package download defines jobs, tasks, leases, data and logs of the downloader, and the contract of
// a store of them (store.go). Stores are in the folders below it.
//
// What it promises: each task has one result, or the reason why there is none; fetching happens at
// least once, storing once. The truth of a task is its lease in the store (owner, end, fencing token):
// who has lost it cannot store any more, and nothing else is trusted, so that roles and queues may be
// killed and lost. Politeness belongs to the owner of a host: hosts hash to shards, a shard is leased
// to one worker, and there is no lock over all.
//
// The way of a task: master takes jobs and URIs in, intake makes tasks of those that the job's filter
// does not know (seen), dispatch hands them out, fair between hosts, worker leases them, waits for
// each host's turn and downloads them with an engine (httpengine, scriptengine, browserengine), and
// the store, sqlite or mongodb, keeps the outcome. node opens all of it as the settings say. Around
// it: jobfile (jobs as people write them), script and browser (what runs in a jail), report, wake,
// metered, verify, errorreport, reexec.
//
// It does not decide what may be called: package fetch and its guard do, for every way out.
// Begin with store.go, then worker.
package download
