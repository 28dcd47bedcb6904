// Package testserver has what is common to the third-party servers that tests start: their
// addresses, processes, connections to them that break, and the wait for what they do.
package testserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Free returns a free host:port of loopback, outside the range from which the system gives
// ports to clients, so that none of them takes it before the server does. The port 10,000
// above, on which a Redis Cluster has its bus, is outside too.
//
// The port belongs to this test until the test ends, even while no server listens on it yet or
// any more: no other call returns it, in any process. It is claimed by a socket on the UDP port
// of the same number, which nothing else uses.
func Free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 10_000 + rand.IntN(10_000)
		if port == 10_080 { // browsers and our downloader refuse it
			continue
		}
		if addr := fmt.Sprintf("127.0.0.1:%d", port); claim(t, addr) {
			return addr
		}
	}
	t.Fatal("no free port between 10000 and 20000")
	return ""
}

// OnFreePort starts a server at the address, and at others where it is taken, until start returns true.
func OnFreePort(t testing.TB, addr *string, start func() bool) {
	t.Helper()
	for range 5 {
		if start() {
			return
		}
		*addr = Free(t) // another process was quicker
	}
	t.Fatalf("%s is taken, like the addresses before it", *addr)
}

// claim takes an address for the test, unless another test has it or a server listens there.
func claim(t testing.TB, addr string) bool {
	claim, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	// Do not listen here to find out: if a process is being forked just then, the socket stays
	// open a moment longer.
	if c, err := net.Dial("tcp", addr); err == nil {
		_, _ = c.Close(), claim.Close()
		return false
	}
	t.Cleanup(func() { _ = claim.Close() })
	return true
}
