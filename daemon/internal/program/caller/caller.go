// Package caller tells callers apart by where they call from.
package caller

import "net/netip"

// Of returns what the calls from an address are counted under: the address, for IPv6 its /64
// network, as one caller has all of it. It is invalid for callers that are not told apart: those
// over Unix sockets, which have no address.
func Of(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.Is6() {
		network, _ := addr.Prefix(64) // an IPv6 address has 128 bits
		return network.Addr()
	}
	return addr
}

// OfRemote is Of for the RemoteAddr of a request.
func OfRemote(remote string) netip.Addr {
	at, _ := netip.ParseAddrPort(remote)
	return Of(at.Addr())
}

// Elsewhere is Of for what is shared out between addresses: it is invalid for this machine, too,
// whose address may be that of a proxy or a tunnel for many.
func Elsewhere(addr netip.Addr) netip.Addr {
	if addr.Unmap().IsLoopback() {
		return netip.Addr{}
	}
	return Of(addr)
}

// ElsewhereOfRemote is Elsewhere for the RemoteAddr of a request.
func ElsewhereOfRemote(remote string) netip.Addr {
	at, _ := netip.ParseAddrPort(remote)
	return Elsewhere(at.Addr())
}
