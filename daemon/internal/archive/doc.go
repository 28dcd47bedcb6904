// Package archive keeps versions of bit-maps in MongoDB, so that a lost server loses
// nothing that was written back. Writeback adds a version, Restore gives it back.
// docs/archive.md has the collections, the steps and why a crash between any two of
// them leaves the last good version. The package decides neither when to write back
// nor what to do when the archive cannot be reached, and it keeps no store.
//
// Nothing here needs transactions, TTL indexes or conditional updates: what must be
// exclusive is an insert with an _id of its own, which every server that speaks the
// protocol does atomically, alone, as a replica set, or sharded.
//
// A version that is published can be restored: what it reuses of an earlier one is looked at first,
// and what is missing there is sent again. Bits are merged by OR within a generation, and never
// across generations.
//
// Package backup decides when: asked for, on a schedule, at a start. Package mongoconn connects, for
// the downloader too: what is acknowledged, the server's clock, errors in plain words. Begin with
// writeback.go.
package archive
