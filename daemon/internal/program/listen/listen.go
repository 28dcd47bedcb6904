// Package listen gets the sockets that a program serves: those that systemd hands over, or
// one that it opens itself. It refuses to be open to other machines if callers need no token.
package listen

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"

	"github.com/coreos/go-systemd/v22/activation"

	"github.com/cr-clawer/urifilter/configs/address"
)

// Options say what a program listens on.
type Options struct {
	// Program is its name; Program.socket is the unit that hands sockets over.
	Program string
	// Socket is the name of the sockets that systemd hands over for this, as FileDescriptorName
	// has it; "": all others.
	Socket string
	// Address is host:port of the settings, used if systemd hands over no socket. The check of
	// the settings has considered Guarded.
	Address string
	// Guarded: callers need a token, so other machines may reach the program.
	Guarded bool
	// Guard is the name of the setting that requires tokens.
	Guard string
	// Log gets a line if sockets and settings disagree.
	Log *slog.Logger
}

// SocketRESP is the name of sockets for Redis clients.
const SocketRESP = "resp"

// handed are the files that systemd hands over, in its order, which can be taken once.
var handed = sync.OnceValue(func() (all []socket) {
	for _, f := range activation.Files(true) {
		l, err := net.FileListener(f) // of a copy
		_ = f.Close()
		if err != nil {
			l = nil // no stream: check says so
		}
		all = append(all, socket{f.Name(), l})
	}
	return all
})

type socket struct {
	name string
	net.Listener
}

// forThis returns the sockets that are handed over for the address of o; nil: it is no stream.
func (o Options) forThis() (listeners []net.Listener) {
	for _, s := range handed() {
		if (s.name == SocketRESP) == (o.Socket == SocketRESP) {
			listeners = append(listeners, s.Listener)
		}
	}
	return listeners
}

// Open takes the sockets that systemd hands over, or opens the address of the settings; handed says which.
func Open(o Options) (sockets []net.Listener, handed bool, err error) {
	sockets = o.forThis()
	if len(sockets) == 0 {
		l, err := net.Listen("tcp", o.Address)
		if errors.Is(err, syscall.EADDRINUSE) {
			err = fmt.Errorf("%w\nhint: is %s already running there? choose another port with --listen", err, o.Program)
		}
		if err != nil {
			return nil, false, err
		}
		return []net.Listener{l}, false, nil
	}
	if err := o.check(sockets); err != nil {
		for _, l := range sockets {
			if l != nil {
				_ = l.Close()
			}
		}
		return nil, false, err
	}
	return sockets, true, nil
}

func (o Options) check(handed []net.Listener) error {
	var addresses []string
	for i, l := range handed {
		if l == nil {
			return fmt.Errorf("socket %d handed over by systemd: no stream to listen on\nhint: want ListenStream= alone in %s.socket", i+1, o.Program)
		}
		addresses = append(addresses, l.Addr().String())
		if !o.Guarded && Reached(l) {
			return fmt.Errorf("socket %s handed over by systemd: other machines could call without a token\n"+
				"hint: set %s in the settings, or ListenStream=127.0.0.1:... in %s.socket", l.Addr(), o.Guard, o.Program)
		}
	}
	if !slices.ContainsFunc(handed, func(l net.Listener) bool { return same(o.Address, l.Addr()) }) {
		o.Log.Warn("systemd's socket is not the address of the settings; the socket counts. `"+o.Program+" service install --now` brings them together",
			"sockets", addresses, "listen", o.Address)
	}
	return nil
}

// Reached reports whether other machines can reach a socket.
func Reached(l net.Listener) bool {
	return l.Addr().Network() == "tcp" && !address.Loopback(l.Addr().String())
}

// same reports whether a socket has the address in the settings.
func same(listen string, socket net.Addr) bool {
	have, ok := socket.(*net.TCPAddr)
	if !ok {
		return false
	}
	want, err := net.ResolveTCPAddr("tcp", listen)
	if err != nil || want.Port != have.Port {
		return false
	}
	every := func(ip net.IP) bool { return ip == nil || ip.IsUnspecified() }
	return want.IP.Equal(have.IP) || every(want.IP) && every(have.IP)
}
