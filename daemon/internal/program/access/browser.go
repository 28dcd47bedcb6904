package access

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Where no tokens are asked for, only programs of this machine can call: the daemon listens on
// a loopback address. A browser is one of them, and runs the pages of strangers. A page can
// send a plain POST to any address, and by DNS rebinding (a name of its own that suddenly
// points to 127.0.0.1) any call whatever. What it cannot do is to change Host, Origin and
// Sec-Fetch-Site, so these must say that the call comes from nowhere else. Programs that are no
// browsers send a Host that is an address of this machine, and neither of the others.

// Page is the error of a call that a web page of another site made, or may have; where tokens
// are asked for it is nil, for such a page has none.
func (g *Guard) Page(r *http.Request) error {
	if g.authenticate != nil {
		return nil
	}
	h := r.Header
	switch {
	case !g.ownHost(r.Host) && !overUnixSocket(r):
		return crossSite("Host " + strconv.Quote(r.Host) + ": want localhost, a loopback address, or a name of auth.allowed_hosts in the daemon's settings")
	case !ownSite(h["Sec-Fetch-Site"]):
		return crossSite("Sec-Fetch-Site " + strconv.Quote(strings.Join(h["Sec-Fetch-Site"], ", ")) + ": a page of another address called, or has a link here: type the address instead")
	case !g.ownOrigin(h["Origin"], r.Host):
		return crossSite("Origin " + strconv.Quote(strings.Join(h["Origin"], ", ")) + ": want that of the daemon's own pages, or one with a name of auth.allowed_hosts in the daemon's settings")
	}
	return nil
}

func crossSite(detail string) error {
	return &problemdetail.Error{Code: problemdetail.CrossSite, Detail: detail}
}

// overUnixSocket: no browser can connect to one, and callers say any Host.
func overUnixSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}

// ownHost tells whether a Host, with or without a port, names this machine. A port tells
// nothing: that of a tunnel is another. HTTP/1.0 may leave Host out; browsers never do.
func (g *Guard) ownHost(host string) bool {
	if host == "" {
		return true
	}
	name := host
	if n, _, err := net.SplitHostPort(host); err == nil {
		name = n
	}
	name = strings.TrimSuffix(strings.TrimSuffix(strings.TrimPrefix(name, "["), "]"), ".")
	if ip, err := netip.ParseAddr(name); err == nil && ip.Unmap().IsLoopback() {
		return true
	}
	return strings.EqualFold(name, "localhost") || g.allowedHost(name)
}

func (g *Guard) allowedHost(name string) bool {
	return slices.ContainsFunc(g.allowedHosts, func(allowed string) bool { return strings.EqualFold(allowed, name) })
}

// ownSite: "none" is a person who typed the address.
func ownSite(sites []string) bool {
	return !slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
}

// ownOrigin tells whether all origins that a call has are those of pages that came from host.
func (g *Guard) ownOrigin(origins []string, host string) bool {
	return !slices.ContainsFunc(origins, func(origin string) bool {
		_, from, ok := strings.Cut(origin, "://")
		if !ok {
			return true // null: nobody knows where it comes from
		}
		if strings.EqualFold(from, host) {
			return false
		}
		if name, _, err := net.SplitHostPort(from); err == nil {
			from = name
		}
		return !g.allowedHost(from)
	})
}
