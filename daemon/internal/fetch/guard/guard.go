// Package guard says which addresses and ports a downloader may connect to, so that nobody can
// make it call the network that it runs in: not by a private address, an address embedded in
// another one, a name that resolves to either, or a proxy there. It resolves no names and opens no
// connections: a dialer asks it before every connect. All connections that the program opens are
// asked for here: those to the hosts of tasks, to proxies of jobs, and to what the settings name.
package guard

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Options say what is allowed. The zero value allows addresses of the public internet only.
type Options struct {
	// AllowPrivate also allows private, shared, loopback and link-local addresses, and those
	// of this machine. It never allows metadata services, or anything that is not the
	// address of one host.
	AllowPrivate bool
	// Allow are addresses that are allowed, whatever the other options say. Metadata services,
	// and what is not the address of one host, stay refused.
	Allow []netip.Prefix
	// Proxies tells whether the operator allows a proxy, which jobs call host, at an address that
	// the other options refuse; nil: none. Metadata services stay refused.
	Proxies func(host string, at netip.AddrPort) bool
	// AnyPort allows all ports, BadPorts as well.
	AnyPort bool
	// Own returns the addresses of this machine, which are refused even if they are public;
	// nil: net.InterfaceAddrs. It is called at most once a minute.
	Own func() ([]netip.Addr, error)
	// Now is the time; nil: time.Now.
	Now func() time.Time
}

// Refused is the error for an address or a port that may not be connected to.
type Refused struct {
	What string // the address or the port
	Port bool   // whether it is a port
	Why  string // what it is, as in "a private address"
}

func (r *Refused) Error() string {
	return fmt.Sprintf("%s is %s, which is not allowed", r.What, r.Why)
}

// Guard decides. Its methods may be called by several goroutines.
type Guard struct {
	private bool
	allow   []netip.Prefix
	proxies func(string, netip.AddrPort) bool
	anyPort bool
	own     func() ([]netip.Addr, error)
	now     func() time.Time

	mu       sync.Mutex // guards the fields below
	mine     map[netip.Addr]bool
	mineRead time.Time
}

// New makes a Guard.
func New(o Options) *Guard {
	g := &Guard{private: o.AllowPrivate, allow: o.Allow, proxies: o.Proxies, anyPort: o.AnyPort, own: o.Own, now: o.Now}
	if g.own == nil {
		g.own = interfaces
	}
	if g.now == nil {
		g.now = time.Now
	}
	return g
}

// ForSettings makes the guard of connections to what the settings name: the operator's mail
// server or webhook may be anywhere and have any port, but is no metadata service.
func ForSettings() *Guard { return New(Options{AllowPrivate: true, AnyPort: true}) }

// Address returns a *Refused for an address that may not be connected to.
func (g *Guard) Address(addr netip.Addr) error {
	if err := never(addr); err != nil {
		return err
	}
	shown := addr.String()
	addr = plain(addr)
	if slices.ContainsFunc(g.allow, func(p netip.Prefix) bool { return p.Contains(addr) }) {
		return nil
	}
	if why, _ := kind(addr); why != "" && !g.private {
		return &Refused{shown, false, why}
	}
	if !g.private && g.isMine(addr) {
		return &Refused{shown, false, "an address of this machine"}
	}
	return nil
}

// never returns a *Refused for an address that no option allows.
func never(addr netip.Addr) error {
	shown := addr.String()
	addr = plain(addr)
	if !addr.IsValid() || addr.Zone() != "" {
		return &Refused{shown, false, "no address of one host on the internet"}
	}
	if why, always := kind(addr); always {
		return &Refused{shown, false, why}
	}
	return nil
}

// Port returns a *Refused for a port that may not be connected to.
func (g *Guard) Port(port uint16) error {
	if !g.anyPort && bad[port] {
		return &Refused{"port " + strconv.Itoa(int(port)), true, "a port of another protocol"}
	}
	return nil
}

// Control is a net.Dialer's ControlContext: it sees the address that is about to be connected
// to, after the last name resolution.
func (g *Guard) Control(_ context.Context, network, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp4" && network != "tcp6" {
		return &Refused{network + " " + address, false, "no TCP address"}
	}
	if err := g.Address(to.Addr()); err != nil {
		return err
	}
	return g.Port(to.Port())
}

// Dialer makes a dialer that asks the guard before every connect.
func (g *Guard) Dialer() *net.Dialer { return &net.Dialer{ControlContext: g.Control} }

// Proxy is like Control, for the connection to a proxy that a job calls host.
func (g *Guard) Proxy(host string) func(context.Context, string, string, syscall.RawConn) error {
	return func(ctx context.Context, network, address string, conn syscall.RawConn) error {
		if to, err := netip.ParseAddrPort(address); err == nil && g.allowedProxy(host, to) {
			return nil
		}
		return g.Control(ctx, network, address, conn)
	}
}

func (g *Guard) allowedProxy(host string, at netip.AddrPort) bool {
	return never(at.Addr()) == nil && g.proxies != nil && g.proxies(host, netip.AddrPortFrom(plain(at.Addr()), at.Port()))
}

// ProxyURL returns a *Refused for a proxy that is certain to be refused before its name is resolved.
func (g *Guard) ProxyURL(u *url.URL) error {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	if err != nil {
		return nil // the dialer will say so
	}
	addr, err := netip.ParseAddr(u.Hostname())
	if err != nil {
		return nil
	}
	if at := netip.AddrPortFrom(addr, uint16(port)); g.allowedProxy(u.Hostname(), at) {
		return nil
	}
	return errors.Join(g.Address(addr), g.Port(uint16(port)))
}

// isMine reports whether the machine has the address. If its addresses are not available,
// the last known ones count.
func (g *Guard) isMine(addr netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := g.now(); g.mine == nil || now.Sub(g.mineRead) > time.Minute {
		if addrs, err := g.own(); err == nil {
			g.mine = map[netip.Addr]bool{}
			for _, a := range addrs {
				g.mine[plain(a)] = true
			}
		}
		g.mineRead = now
	}
	return g.mine[addr]
}

func interfaces() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, err
	}
	var addrs []netip.Addr
	for _, a := range all {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			addrs = append(addrs, p.Addr())
		}
	}
	return addrs, nil
}

// plain is the address to which packets finally go: the IPv4 address that is mapped into
// IPv6, or that NAT64 translates to (RFC 6052).
func plain(addr netip.Addr) netip.Addr {
	addr = addr.Unmap()
	if nat64.Contains(addr) {
		b := addr.As16()
		return netip.AddrFrom4([4]byte(b[12:]))
	}
	return addr
}
