package address

import (
	"net"
	"slices"
	"strings"
	"testing"
)

// A program that listens on any of these addresses can be reached at Reachable of it.
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

// For the wildcard of IPv6, the host is ::1, because the program may listen on IPv6 only.
func TestURL(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]string{
		":8000":                   "http://127.0.0.1:8000",
		"0.0.0.0:8000":            "http://127.0.0.1:8000",
		"[::]:8000":               "http://[::1]:8000",
		"[::1]:8000":              "http://[::1]:8000",
		"host:1":                  "http://host:1",
		"192.0.2.7:18000":         "http://192.0.2.7:18000",
		"[fe80::1%eth0]:8000":     "http://[fe80::1%eth0]:8000",
		"/run/urifilter/api.sock": "/run/urifilter/api.sock",
		"@urifilter":              "@urifilter",
	} {
		if got := URL(false, listen); got != want {
			t.Errorf("%s: got %s, want %s", listen, got, want)
		}
	}
	if got := URL(true, ":8000"); got != "https://127.0.0.1:8000" {
		t.Errorf("with TLS: %s", got)
	}
}

func TestBind(t *testing.T) {
	bind, faults := Bind([]string{"127.0.0.1", "192.0.2.7", "::1", "192.0.2.7", "2001:db8::1", "0.0.0.0", "example.com", "fe80::1%eth0"})
	if want := []string{"192.0.2.7", "2001:db8::1"}; !slices.Equal(bind, want) {
		t.Errorf("got %q, want %q", bind, want)
	}
	if len(faults) != 3 || !strings.Contains(faults[0], "every address") || !strings.Contains(faults[1], "want an IP address") || !strings.Contains(faults[2], "%eth0") {
		t.Errorf("faults %q", faults)
	}
}

func TestLoopback(t *testing.T) {
	for addr, want := range map[string]bool{
		"127.0.0.1:1": true, "127.9.9.9:1": true, "[::1]:1": true, "[::ffff:127.0.0.1]:1": true, "localhost:1": true,
		"0.0.0.0:1": false, ":1": false, "[::]:1": false, "192.0.2.7:1": false, "localhost.example.com:1": false, "127.0.0.1": false,
	} {
		if got := Loopback(addr); got != want {
			t.Errorf("%s: got %t, want %t", addr, got, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for addr, good := range map[string]bool{"127.0.0.1:8000": true, "[::1]:0": true, ":80": true, "host:65535": true, "host": false, "host:65536": false, "host:http": false, "": false} {
		if err := Check(addr); (err == nil) != good {
			t.Errorf("%q: %v", addr, err)
		}
	}
}
