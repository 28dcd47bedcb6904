// Package testserver has what is the same of all servers of other projects that tests start:
// their addresses, processes, and connections to them that break.
package testserver

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Free returns a free host:port of loopback, outside the range from which the system
// gives ports to clients, so that none of them takes it before the server does. The port
// 10,000 above, on which a Redis Cluster has its bus, is outside too.
//
// The port is this test's until it ends, also while no server listens there yet, or does no more: no
// other call has it, in whichever process. What shows it is a socket on the UDP port of the same
// number, which nothing else uses.
func Free(t testing.TB) string {
	t.Helper()
	for range 1000 {
		addr := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(10_000))
		if claim(t, addr) {
			return addr
		}
	}
	t.Fatal("no free port between 10000 and 20000")
	return ""
}

// claim takes an address for the test, unless another has it, or listens there.
func claim(t testing.TB, addr string) bool {
	claim, err := net.ListenPacket("udp", addr)
	if err != nil {
		return false
	}
	// To listen here would be to listen for a moment longer, if a process is just forked.
	if c, err := net.Dial("tcp", addr); err == nil {
		_, _ = c.Close(), claim.Close()
		return false
	}
	t.Cleanup(func() { _ = claim.Close() })
	return true
}
