package caller

import (
	"net/netip"
	"testing"
)

func TestOf(t *testing.T) {
	const none = "invalid IP"
	for _, test := range []struct{ remote, of, elsewhere string }{
		{"192.0.2.1:80", "192.0.2.1", "192.0.2.1"},
		{"[::ffff:192.0.2.1]:80", "192.0.2.1", "192.0.2.1"},
		{"[2001:db8::1:2]:80", "2001:db8::", "2001:db8::"},
		{"[fe80::1%eth0]:80", "fe80::", "fe80::"},
		{"127.0.0.9:80", "127.0.0.9", none},
		{"[::1]:80", "::", none},
		{"[::ffff:127.0.0.1]:80", "127.0.0.1", none},
		{"@", none, none},
		{"", none, none},
	} {
		if of, elsewhere := OfRemote(test.remote).String(), ElsewhereOfRemote(test.remote).String(); of != test.of || elsewhere != test.elsewhere {
			t.Errorf("%q: %s and %s, want %s and %s", test.remote, of, elsewhere, test.of, test.elsewhere)
		}
	}
	if got := Of(netip.Addr{}); got.IsValid() {
		t.Errorf("no address: %s", got)
	}
}
