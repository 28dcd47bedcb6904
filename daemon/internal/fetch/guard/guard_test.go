package guard

import (
	"errors"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"
)

func nobody() ([]netip.Addr, error) { return nil, nil }

func TestAddresses(t *testing.T) {
	closed, open := New(Options{Own: nobody}), New(Options{AllowPrivate: true, Own: nobody})
	for addr, want := range map[string]struct {
		why       string // "" if allowed
		evenThere bool   // refused even with AllowPrivate
	}{
		"93.184.215.14":                     {},
		"9.255.255.255":                     {},
		"11.0.0.0":                          {},
		"172.15.255.255":                    {},
		"172.32.0.0":                        {},
		"100.63.255.255":                    {},
		"100.128.0.0":                       {},
		"223.255.255.255":                   {},
		"2606:2800:21f:cb07:6820:80da::":    {},
		"2400:cb00::1":                      {},
		"::ffff:93.184.215.14":              {},
		"64:ff9b::5db8:d70e":                {}, // 93.184.215.14 behind NAT64
		"127.0.0.1":                         {"loopback", false},
		"127.255.255.254":                   {"loopback", false},
		"::1":                               {"loopback", false},
		"::ffff:127.0.0.1":                  {"loopback", false},
		"64:ff9b::7f00:1":                   {"loopback", false},
		"10.0.0.1":                          {"private", false},
		"172.16.0.0":                        {"private", false},
		"172.31.255.255":                    {"private", false},
		"192.168.255.255":                   {"private", false},
		"fc00::1":                           {"private", false},
		"fdff::1":                           {"private", false},
		"64:ff9b::c0a8:1":                   {"private", false},
		"100.64.0.1":                        {"shared", false},
		"169.254.1.1":                       {"link-local", false},
		"fe80::1":                           {"link-local", false},
		"198.19.0.1":                        {"benchmarks", false},
		"169.254.169.254":                   {"metadata", true},
		"169.254.170.2":                     {"metadata", true},
		"::ffff:169.254.169.254":            {"metadata", true},
		"64:ff9b::a9fe:a9fe":                {"metadata", true},
		"100.100.100.200":                   {"metadata", true},
		"168.63.129.16":                     {"metadata", true},
		"fd00:ec2::254":                     {"metadata", true},
		"0.0.0.0":                           {"no host", true},
		"0.1.2.3":                           {"no host", true},
		"192.0.0.8":                         {"protocols", true},
		"192.0.2.1":                         {"examples", true},
		"198.51.100.1":                      {"examples", true},
		"203.0.113.255":                     {"examples", true},
		"192.88.99.1":                       {"6to4", true},
		"224.0.0.1":                         {"multicast", true},
		"239.255.255.255":                   {"multicast", true},
		"240.0.0.1":                         {"reserved", true},
		"255.255.255.255":                   {"reserved", true},
		"::":                                {"global", true},
		"::7f00:1":                          {"global", true}, // the old form, IPv4-compatible
		"::ffff:0:7f00:1":                   {"global", true}, // IPv4-translated
		"64:ff9b:1::7f00:1":                 {"global", true},
		"100::1":                            {"global", true},
		"fec0::1":                           {"global", true}, // site-local
		"ff02::1":                           {"multicast", true},
		"2001:0:7f00:1::":                   {"Teredo", true},
		"2001:10::1":                        {"Teredo", true},
		"2001:db8::1":                       {"examples", true},
		"3fff:fff::1":                       {"examples", true},
		"2002:7f00:1::":                     {"6to4", true},
		"2002:5db8:d70e::":                  {"6to4", true},
		"fe80::1%eth0":                      {"no address of one host", true},
		"2606:2800:21f:cb07:6820:80da::%lo": {"no address of one host", true},
	} {
		check(t, "closed", addr, closed.Address(netip.MustParseAddr(addr)), want.why)
		if !want.evenThere {
			want.why = ""
		}
		check(t, "open", addr, open.Address(netip.MustParseAddr(addr)), want.why)
	}
	check(t, "closed", "none", closed.Address(netip.Addr{}), "no address")
}

func check(t *testing.T, guard, addr string, err error, why string) {
	t.Helper()
	var refused *Refused
	switch {
	case why == "" && err != nil:
		t.Errorf("%s, %s: %v, want it allowed", guard, addr, err)
	case why != "" && (!errors.As(err, &refused) || !strings.Contains(err.Error(), why)):
		t.Errorf("%s, %s: got %v, want it refused as %q", guard, addr, err, why)
	}
}

// An address embedded in another one is judged by the embedded one.
func FuzzWrapped(f *testing.F) {
	f.Add(uint32(0x7f000001))
	f.Add(uint32(0x08080808))
	g := New(Options{Own: nobody})
	f.Fuzz(func(t *testing.T, v4 uint32) {
		b := [4]byte{byte(v4 >> 24), byte(v4 >> 16), byte(v4 >> 8), byte(v4)}
		want := g.Address(netip.AddrFrom4(b)) == nil
		mapped := netip.AddrFrom16(netip.AddrFrom4(b).As16())
		translated := netip.AddrFrom16([16]byte{0, 0x64, 0xff, 0x9b, 12: b[0], 13: b[1], 14: b[2], 15: b[3]})
		for _, a := range []netip.Addr{mapped, translated} {
			if got := g.Address(a) == nil; got != want {
				t.Errorf("%s allowed: %t, and of %v %t", a, got, b, want)
			}
		}
	})
}

func TestOptions(t *testing.T) {
	now := time.Unix(1, 0)
	own := []netip.Addr{netip.MustParseAddr("8.8.8.8")}
	g := New(Options{
		Allow: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")},
		Own:   func() ([]netip.Addr, error) { return own, nil },
		Now:   func() time.Time { return now },
	})
	check(t, "mine", "10.1.2.3", g.Address(netip.MustParseAddr("10.1.2.3")), "")
	check(t, "mine", "10.2.2.3", g.Address(netip.MustParseAddr("10.2.2.3")), "private")
	check(t, "mine", "8.8.8.8", g.Address(netip.MustParseAddr("8.8.8.8")), "this machine")
	own = []netip.Addr{netip.MustParseAddr("9.9.9.9")}
	check(t, "mine", "8.8.8.8", g.Address(netip.MustParseAddr("8.8.8.8")), "this machine") // known for a minute
	now = now.Add(2 * time.Minute)
	check(t, "mine", "8.8.8.8", g.Address(netip.MustParseAddr("8.8.8.8")), "")
	check(t, "mine", "9.9.9.9", g.Address(netip.MustParseAddr("9.9.9.9")), "this machine")
}

// No option lets anybody call a metadata service.
func TestMetadataIsNeverAllowed(t *testing.T) {
	everything := []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")}
	g := New(Options{AllowPrivate: true, Allow: everything, Proxies: func(string, netip.AddrPort) bool { return true }, AnyPort: true, Own: nobody})
	for _, text := range []string{"169.254.169.254", "169.254.170.2", "168.63.129.16", "100.100.100.200", "fd00:ec2::254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe"} {
		addr := netip.MustParseAddr(text)
		at := netip.AddrPortFrom(addr, 80)
		check(t, "all", text, g.Address(addr), "metadata")
		check(t, "settings", text, ForSettings().Address(addr), "metadata")
		network := map[bool]string{true: "tcp4", false: "tcp6"}[addr.Is4()]
		check(t, "proxy", text, g.Proxy("any")(t.Context(), network, at.String(), nil), "metadata")
		check(t, "proxy's URI", text, g.ProxyURL(&url.URL{Host: at.String()}), "metadata")
	}
	check(t, "settings", "mail server", ForSettings().Control(t.Context(), "tcp4", "10.0.0.1:465", nil), "")
}

// A proxy is like any other host, unless the operator has named it.
func TestProxy(t *testing.T) {
	named := func(host string, at netip.AddrPort) bool {
		return host == "proxy.example" && at == netip.MustParseAddrPort("10.0.0.1:3128")
	}
	closed, open := New(Options{Proxies: named, Own: nobody}), New(Options{AllowPrivate: true, Own: nobody})
	for _, test := range []struct {
		g             *Guard
		host, at, why string
	}{
		{closed, "proxy.example", "10.0.0.1:3128", ""}, {closed, "proxy.example", "10.0.0.2:3128", "private"}, {closed, "other.example", "10.0.0.1:3128", "private"},
		{closed, "proxy.example", "10.0.0.1:25", "private"}, {closed, "a", "127.0.0.1:8080", "loopback"}, {closed, "a", "93.184.215.14:8080", ""},
		{closed, "a", "93.184.215.14:25", "another protocol"}, {open, "a", "127.0.0.1:8080", ""}, {open, "a", "127.0.0.1:25", "another protocol"},
	} {
		check(t, test.host, test.at, test.g.Proxy(test.host)(t.Context(), "tcp4", test.at, nil), test.why)
	}
	for at, why := range map[string]string{"127.0.0.1:8080": "loopback", "[::1]:8080": "loopback", "proxy.example:3128": "", "93.184.215.14:25": "another protocol", "10.0.0.1:3128": "private"} {
		check(t, "URI", at, closed.ProxyURL(&url.URL{Host: at}), why)
	}
}

func TestInterfaces(t *testing.T) {
	addrs, err := interfaces()
	if err != nil || len(addrs) == 0 {
		t.Errorf("got %v and %v, want the loopback address at least", addrs, err)
	}
}

func TestPorts(t *testing.T) {
	all := New(Options{})
	for _, p := range []uint16{80, 443, 8080, 8443, 1024, 65535} {
		if err := all.Port(p); err != nil {
			t.Errorf("port %d: %v", p, err)
		}
	}
	for _, p := range BadPorts() {
		check(t, "all", "port", all.Port(p), "another protocol")
	}
}

func TestControl(t *testing.T) {
	g := New(Options{Own: nobody})
	for address, why := range map[string]string{
		"93.184.215.14:80": "", "[2400:cb00::1]:443": "", "127.0.0.1:80": "loopback", "[fe80::1%lo]:80": "no address of one host",
		"93.184.215.14:25": "another protocol", "localhost:80": "no TCP", "/run/x.sock": "no TCP",
	} {
		check(t, "control", address, g.Control(t.Context(), "tcp4", address, nil), why)
	}
	check(t, "control", "udp", g.Control(t.Context(), "udp4", "93.184.215.14:80", nil), "no TCP")
}
