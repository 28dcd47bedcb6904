// Package testkit is the room of what tests share. The folder itself has no code, and no package of
// the product imports one below it, which daemon/importrules_test.go enforces.
//
//   - Suites: storetest (every store, over every kind), downloadtest (stores of the downloader),
//     apitest (a server whose answers are held against openapi.yaml).
//   - Campaigns: chaos (daemons, Redis and archive are killed, halted and cut off), downloads (the
//     same for the downloader), powerloss (what a disk may hold after a power cut), crawltest (a site
//     with traps); history and leasetest judge what callers were told against the rules.
//   - Real servers: redistest, mysqltest, mongotest, testserver; certtest makes certificates, ptytest
//     a terminal.
package testkit
