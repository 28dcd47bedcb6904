package guard

import "net/netip"

// special are the addresses that are not hosts of the public internet: those in the IANA
// registries of special-purpose addresses (RFC 6890 and later), and those of metadata
// services. The first entry that contains an address counts.
var special = []struct {
	prefix netip.Prefix
	why    string
	always bool // refused even if private addresses are allowed
}{
	// Metadata services of clouds, which hand out credentials.
	{netip.MustParsePrefix("169.254.169.254/32"), metadata, true},
	{netip.MustParsePrefix("169.254.169.253/32"), metadata, true},
	{netip.MustParsePrefix("169.254.169.123/32"), metadata, true},
	{netip.MustParsePrefix("169.254.170.0/24"), metadata, true},   // of containers and pods
	{netip.MustParsePrefix("168.63.129.16/32"), metadata, true},   // Azure
	{netip.MustParsePrefix("100.100.100.200/32"), metadata, true}, // Alibaba
	{netip.MustParsePrefix("192.0.0.192/32"), metadata, true},     // Oracle
	{netip.MustParsePrefix("fd00:ec2::/32"), metadata, true},      // Amazon
	{netip.MustParsePrefix("fd20:ce::254/128"), metadata, true},   // Google
	{netip.MustParsePrefix("fe80::a9fe:a9fe/128"), metadata, true},

	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address", false},
	{netip.MustParsePrefix("::1/128"), "a loopback address", false},
	{netip.MustParsePrefix("10.0.0.0/8"), "a private address", false},
	{netip.MustParsePrefix("172.16.0.0/12"), "a private address", false},
	{netip.MustParsePrefix("192.168.0.0/16"), "a private address", false},
	{netip.MustParsePrefix("fc00::/7"), "a private address", false},
	{netip.MustParsePrefix("100.64.0.0/10"), "an address shared by a provider's customers", false},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address", false},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address", false},
	{netip.MustParsePrefix("198.18.0.0/15"), "an address for benchmarks", false},

	{netip.MustParsePrefix("0.0.0.0/8"), "an address of no host", true},
	{netip.MustParsePrefix("192.0.0.0/24"), "an address for protocols", true},
	{netip.MustParsePrefix("192.0.2.0/24"), "an address for examples", true},
	{netip.MustParsePrefix("198.51.100.0/24"), "an address for examples", true},
	{netip.MustParsePrefix("203.0.113.0/24"), "an address for examples", true},
	{netip.MustParsePrefix("192.88.99.0/24"), "an address of 6to4 relays", true},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address", true},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address", true},
	{netip.MustParsePrefix("0.0.0.0/0"), "", false},

	{netip.MustParsePrefix("ff00::/8"), "a multicast address", true},
	{netip.MustParsePrefix("2001::/23"), "an address for protocols, as Teredo's", true},
	{netip.MustParsePrefix("2001:db8::/32"), "an address for examples", true},
	{netip.MustParsePrefix("3fff::/20"), "an address for examples", true},
	{netip.MustParsePrefix("2002::/16"), "an IPv4 address wrapped by 6to4", true},
	{netip.MustParsePrefix("2000::/3"), "", false},
	{netip.MustParsePrefix("::/0"), "no global address", true}, // all else: only 2000::/3 is assigned
}

const metadata = "the address of a metadata service"

// nat64 is the well-known prefix of NAT64, by which networks without IPv4 reach all of it.
var nat64 = netip.MustParsePrefix("64:ff9b::/96")

// kind says why an address is special, "" if it is not.
func kind(addr netip.Addr) (why string, always bool) {
	for _, s := range special {
		if s.prefix.Contains(addr) {
			return s.why, s.always
		}
	}
	return "no address", true
}

// BadPorts are the ports that browsers do not call by HTTP (the Fetch standard, "bad port"),
// because servers there may take a request for their own protocol.
func BadPorts() []uint16 {
	return []uint16{
		0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109,
		110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531,
		532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060,
		5061, 6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
	}
}

var bad = func() map[uint16]bool {
	m := map[uint16]bool{}
	for _, p := range BadPorts() {
		m[p] = true
	}
	return m
}()
