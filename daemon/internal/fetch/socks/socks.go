// Package socks asks a SOCKS5 proxy for a connection (RFC 1928), with user and password (RFC
// 1929) if the proxy requires them. It opens no connections itself.
package socks

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
)

// Refusal is the error of a proxy that works, but cannot connect or refuses to.
type Refusal struct{ Code byte }

func (r *Refusal) Error() string {
	texts := []string{"", "general failure", "not allowed by its rules", "network unreachable", "host unreachable", "connection refused",
		"time to live expired", "command not supported", "type of address not supported"}
	if int(r.Code) < len(texts) && r.Code > 0 {
		return "socks: " + texts[r.Code]
	}
	return fmt.Sprintf("socks: refused with code %d", r.Code)
}

// Errors of a proxy that cannot be used.
var (
	ErrAuthentication = errors.New("socks: user and password are wrong, or missing")
	ErrProtocol       = errors.New("socks: the proxy speaks no SOCKS5")
)

// Target is what a proxy should connect to: Addr if it is valid, otherwise Host, which the
// proxy resolves.
type Target struct {
	Host string
	Addr netip.Addr
	Port uint16
}

// Login is a user with a password; the zero value is none.
type Login struct{ User, Password string }

const (
	version      = 5
	noLogin      = 0
	withPassword = 2
	connect      = 1
	ipv4, name   = 1, 3
	ipv6         = 4
)

// Connect turns conn, a connection to a proxy, into one to the target. The error is a *Refusal if
// the proxy works; otherwise it wraps ErrAuthentication or ErrProtocol, or is that of conn. It
// reads nothing of what the target sends. Deadlines are the caller's task.
func Connect(conn io.ReadWriter, to Target, as Login) error {
	if len(to.Host) > 255 || len(as.User) > 255 || len(as.Password) > 255 {
		return fmt.Errorf("%w: a host, user or password is longer than 255 bytes", ErrProtocol)
	}
	if err := greet(conn, as); err != nil {
		return err
	}
	ask := []byte{version, connect, 0}
	switch {
	case to.Addr.Unmap().Is4():
		ask = append(append(ask, ipv4), to.Addr.Unmap().AsSlice()...)
	case to.Addr.IsValid():
		ask = append(append(ask, ipv6), to.Addr.AsSlice()...)
	default:
		ask = append(append(ask, name, byte(len(to.Host))), to.Host...)
	}
	if _, err := conn.Write(append(ask, byte(to.Port>>8), byte(to.Port))); err != nil {
		return err
	}
	return answer(conn)
}

func greet(conn io.ReadWriter, as Login) error {
	methods := []byte{noLogin}
	if as.User != "" {
		methods = []byte{noLogin, withPassword}
	}
	if _, err := conn.Write(append([]byte{version, byte(len(methods))}, methods...)); err != nil {
		return err
	}
	var said [2]byte
	if _, err := io.ReadFull(conn, said[:]); err != nil {
		return err
	}
	switch {
	case said[0] != version:
		return ErrProtocol
	case said[1] == noLogin:
		return nil
	case said[1] != withPassword || as.User == "":
		return ErrAuthentication
	}
	login := append([]byte{1, byte(len(as.User))}, as.User...)
	login = append(append(login, byte(len(as.Password))), as.Password...)
	if _, err := conn.Write(login); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, said[:]); err != nil {
		return err
	}
	if said[1] != 0 {
		return ErrAuthentication
	}
	return nil
}

// answer reads a reply and the address in it, which says where the proxy calls from.
func answer(conn io.Reader) error {
	var head [5]byte
	if _, err := io.ReadFull(conn, head[:4]); err != nil {
		return err
	}
	if head[0] != version {
		return ErrProtocol
	}
	if head[1] != 0 {
		return &Refusal{head[1]}
	}
	rest := 2 // the port
	switch head[3] {
	case ipv4:
		rest += net.IPv4len
	case ipv6:
		rest += net.IPv6len
	case name:
		if _, err := io.ReadFull(conn, head[4:]); err != nil {
			return err
		}
		rest += int(head[4])
	default:
		return ErrProtocol
	}
	_, err := io.ReadFull(conn, make([]byte, rest))
	return err
}
