// Package wrap is what the wraps of a server's connections have in common: connlimit, gather, wrongport
// and drain each put one around every connection that a listener accepts. It changes nothing that
// goes through them.
package wrap

import (
	"context"
	"errors"
	"io"
	"net"
)

// Conn is a connection around another one. A wrap embeds it, so as not to hide the methods that
// packages http and tls look for.
type Conn struct{ net.Conn }

// NetConn returns the connection inside.
func (c Conn) NetConn() net.Conn { return c.Conn }

// ReadFrom lets the system send a file without copying it to this process.
func (c Conn) ReadFrom(r io.Reader) (int64, error) { return io.Copy(c.Conn, r) }

// CloseWrite ends the sending half.
func (c Conn) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Listener puts around around each connection of l. One for which around returns nil is not served.
func Listener(l net.Listener, around func(net.Conn) net.Conn) net.Listener {
	return &listener{l, around}
}

type listener struct {
	net.Listener
	around func(net.Conn) net.Conn
}

func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if c = l.around(c); c != nil {
			return c, nil
		}
	}
}

// Find returns the wrap of type T among c and the connections inside it, or nil.
func Find[T net.Conn](c net.Conn) T {
	for {
		if own, ok := c.(T); ok {
			return own
		}
		over, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			var none T
			return none
		}
		c = over.NetConn()
	}
}

type key struct{}

// Context is for [http.Server.ConnContext]: Of finds the wraps of c in the context of its requests.
func Context(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, key{}, c)
}

// Of returns the wrap of type T of the connection of a request with such a context, or nil.
func Of[T net.Conn](ctx context.Context) T {
	c, _ := ctx.Value(key{}).(net.Conn)
	return Find[T](c)
}
