package login

import (
	"context"
	"errors"
	"io"
	"net"

	"golang.org/x/crypto/ssh"
)

// ErrForbidden means that sshd forwards no connections (AllowTcpForwarding, PermitOpen).
var ErrForbidden = errors.New("sshd of the host forwards no connections")

// Tunnel connects to an address as seen from the host. Unlike the library's connections,
// the one that it returns has deadlines, and closing it ends a Read at once.
func (l *Link) Tunnel(ctx context.Context, network, address string) (net.Conn, error) {
	far, err := l.client.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	near, inner := net.Pipe()
	// The end of one direction ends both.
	started := l.Start(func() {
		_, _ = io.Copy(inner, far) // the reader gets the end, whatever it is
		inner.Close()
	}) && l.Start(func() {
		_, _ = io.Copy(far, inner)
		far.Close()
	})
	if !started {
		far.Close()
		return nil, net.ErrClosed
	}
	return &tunnelConn{near, far}, nil
}

// tunnelConn is the near end of a pipe; when it is closed, the goroutines close the rest.
type tunnelConn struct {
	net.Conn
	far net.Conn
}

func (t *tunnelConn) RemoteAddr() net.Addr { return t.far.RemoteAddr() }
func (t *tunnelConn) LocalAddr() net.Addr  { return t.far.LocalAddr() }

// Forbidden reports whether an error is that of a host that forwards nothing.
func Forbidden(err error) bool {
	var open *ssh.OpenChannelError
	return errors.As(err, &open) && (open.Reason == ssh.Prohibited || open.Reason == ssh.UnknownChannelType)
}
