package address

import (
	"net/netip"
	"strings"
	"testing"
)

func TestServices(t *testing.T) {
	all, err := ParseServices("proxies.allowed", []string{"Proxy.example:3128", "127.0.0.1:8118", "10.1.0.0/16:1080", "[fd00::/8]:1080", "[::1]:9050"})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		host, at string
		want     bool
	}{
		{"proxy.example", "10.9.9.9:3128", true}, {"PROXY.example.", "10.9.9.9:3128", true}, {"proxy.example", "10.9.9.9:3129", false},
		{"other.example", "10.9.9.9:3128", false}, {"127.0.0.1", "127.0.0.1:8118", true}, {"localhost", "127.0.0.1:8118", true},
		{"127.0.0.1", "127.0.0.1:8119", false}, {"x", "10.1.255.1:1080", true}, {"x", "[::ffff:10.1.255.1]:1080", true}, {"x", "10.2.0.1:1080", false},
		{"x", "[fd12::1]:1080", true}, {"x", "[::1]:9050", true}, {"x", "[::1]:1080", false},
	} {
		if got := all.Have(test.host, netip.MustParseAddrPort(test.at)); got != test.want {
			t.Errorf("%s at %s: got %t", test.host, test.at, got)
		}
	}
	for _, text := range []string{"", "10.0.0.1", ":3128", "10.0.0.0/33:1", "a:0", "a:65536", "http://a:1", "*:1", "me@a:1"} {
		if _, err := ParseServices("k", []string{"a:1", text}); err == nil || !strings.HasPrefix(err.Error(), "k[1]: ") {
			t.Errorf("%q: got %v", text, err)
		}
	}
}
