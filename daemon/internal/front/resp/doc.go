// Package resp is how clients of Redis call the daemon: a server of the protocol RESP, versions 2
// and 3, with the commands of RedisBloom (BF.ADD and its siblings), the commands of sets that
// crawlers de-duplicate with (SADD and its siblings), and UF.* for what these lack. A key is the
// name of a filter.
//
// It promises what HTTP promises, because both call package batch: an item is durable before its
// answer is sent, of equal items from any callers one is new, and a command is done as a whole or
// not at all. Answers and error texts are those that clients of Redis know; where the daemon cannot
// do the same, the difference is in docs/resp.md. Only the read and write buffers of a connection
// grow with what is sent: the first is bounded by Limits.CommandBytes, and by a budget that all
// calls share, the second is flushed as it fills, and a client that does not read, or that stops within a
// command, is cut off.
//
// It knows no store, opens no socket, and keeps nothing but connections. Begin reading at
// conn.serve: commands are read (reader.go), found in a table (commands.go), done (bloom.go,
// sets.go, uf.go, keyspace.go, connection.go), and answered (writer.go). Equal single-item
// commands that a client pipelines are done as one batch, see conn.merge: one lock and one sync
// for all of them.
package resp
