// Package filter is the room of what a filter is, whatever protocol a call comes by and wherever the
// filter is kept. The folder itself has no code.
//
// A filter is an id, a name, a kind and the parameters of its kind: configs.Filter in the settings,
// engine.Spec in the daemon. Two filters are the same if their specs are equal. Every other form of a
// filter (settings, HTTP, filter.json, the registry in Redis, documents of the archive, flags) is
// made from the fields of the kind's parameters and from nothing else.
//
// What it promises:
//
//   - Of equal items, in one list or from many callers at the same moment, one is new. The reason is
//     that a batch is tested and set under one lock (bloom), or under the lock of each part of a
//     table: an atomic OR of a word would not be a test-and-set of an item.
//   - A batch is all or nothing: items are decoded and checked before anything is remembered.
//   - Nothing is allocated for each item: items are slices of the request's body, which is also what
//     the answer is written from.
//   - Nobody can craft false positives: each filter hashes with a secret seed (but for the kind
//     scaling, which is RedisBloom's).
//
// The packages, from the call down:
//
//   - batch is the use case: it finds the filter, hashes the items, asks its set, and counts; tally
//     shows the counts.
//   - engine has the filters by name and id, the contract of stores (store.go), and where each filter
//     comes from at a start (reconcile.go).
//   - kinds has a package for each kind: its memory, its file, what it journals; kind says what that
//     is. configs/kind….go has what its filters are made with. Nothing else names a kind, which
//     daemon/kindnames_test.go enforces.
//   - items reads lists, lines and JSON values; canonical is the form of a URI that is hashed; sniff
//     recognises what is no list.
//   - bloom, table, timing and simhash are the memories themselves; poisson is a sum that they share,
//     and mapped what the larger ones are made of.
//
// Begin with batch.Judge, then engine.Set, then bloom.Map.Add. What only some kinds can do is an
// interface of its own, see engine.As. It knows no store and no protocol, and opens no file but
// through package disk.
package filter
