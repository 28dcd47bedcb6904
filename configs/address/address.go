// Package address checks the addresses that programs listen on and are called at: host:port.
package address

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
)

// Check says what is wrong with an address; nil: nothing.
func Check(addr string) error {
	_, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		return fmt.Errorf("%q: want host:port, such as 127.0.0.1:8000 or [::1]:8000", addr)
	}
	return nil
}

// Loopback reports whether only this machine can reach addr, a host:port. The only name
// that it trusts is localhost.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

// Reachable returns the host:port at which a program that listens on an address is called on
// its own machine: for all interfaces, this is the loopback address of the same family.
func Reachable(listen string) string {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen // Check refuses it
	}
	ip := net.ParseIP(host)
	switch {
	case host == "" || ip.Equal(net.IPv4zero):
		host = "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		host = "::1"
	}
	return net.JoinHostPort(host, port)
}

// URL returns the URL at which a program that listens on an address, with TLS or without, is called
// on its own machine. What is no host:port, such as the path of a Unix socket, stays as it is.
func URL(tls bool, listen string) string {
	if _, _, err := net.SplitHostPort(listen); err != nil {
		return listen
	}
	if tls {
		return "https://" + Reachable(listen)
	}
	return "http://" + Reachable(listen)
}

// Bind checks the addresses of a host that a server on it is bound to in addition to loopback,
// and leaves out those that are loopback or repeated. faults says what is wrong with others.
func Bind(addresses []string) (bind, faults []string) {
	for _, text := range addresses {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil || ip.Zone() != "":
			faults = append(faults, fmt.Sprintf("bind %q: want an IP address of the host", text))
		case ip.IsUnspecified():
			faults = append(faults, fmt.Sprintf("bind %q: that is every address, also a public one; name those that filter hosts use", text))
		case !ip.IsLoopback() && !slices.Contains(bind, ip.String()):
			bind = append(bind, ip.String())
		}
	}
	return bind, faults
}
