package address

import (
	"net"
	"testing"
)

// A program that listens on each of these is reached there.
func TestAListenAddressIsReached(t *testing.T) {
	t.Parallel()
	for _, listen := range []string{"127.0.0.1:0", "0.0.0.0:0", ":0", "[::]:0", "[::1]:0"} {
		network := "tcp"
		if listen == "[::]:0" {
			network = "tcp6" // as with net.ipv6.bindv6only
		}
		l, err := net.Listen(network, listen)
		if err != nil {
			t.Logf("%s: %v", listen, err) // a machine without IPv6
			continue
		}
		host, _, _ := net.SplitHostPort(listen)
		_, port, _ := net.SplitHostPort(l.Addr().String())
		conn, err := net.Dial("tcp", Reachable(net.JoinHostPort(host, port)))
		if err != nil {
			t.Errorf("%s: %v", listen, err)
		} else {
			conn.Close()
		}
		l.Close()
	}
}
