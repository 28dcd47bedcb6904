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

// If no tokens are required, only programs on this machine can call: the daemon listens on
// a loopback address. A browser is one of them, and it runs the pages of strangers. A page can
// send a plain POST to any address, and by DNS rebinding (its own name suddenly points to
// 127.0.0.1) any call at all. But it cannot change Host, Origin and Sec-Fetch-Site, so these
// must show that the call does not come from another site. Programs other than browsers send a
// Host that is an address of this machine, and no Origin or Sec-Fetch-Site.

// Page returns an error for a call that a web page of another site made, or may have made. It is
// nil if tokens are required, because such a page has none.
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

// overUnixSocket: no browser can connect to a Unix socket, and callers send any Host.
func overUnixSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}

// ownHost reports whether a Host, with or without a port, names this machine. The port proves
// nothing: a tunnel has a different one. HTTP/1.0 may omit Host; browsers never do.
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

// ownSite: "none" means that a person typed the address.
func ownSite(sites []string) bool {
	return !slices.ContainsFunc(sites, func(site string) bool { return site != "same-origin" && site != "none" })
}

// ownOrigin reports whether all origins of a call belong to pages that came from host.
func (g *Guard) ownOrigin(origins []string, host string) bool {
	return !slices.ContainsFunc(origins, func(origin string) bool {
		_, from, ok := strings.Cut(origin, "://")
		if !ok {
			return true // null: its source is unknown
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
