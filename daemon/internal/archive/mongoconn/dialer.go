package mongoconn

import (
	"context"
	"net"
	"sync"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// dialer makes connections that can be cut all at once. When the driver is told to end, it waits
// for its exchange with a server, which may never answer.
type dialer struct {
	by options.ContextDialer

	mu   sync.Mutex
	cut  bool
	open map[*conn]struct{}
}

type conn struct {
	net.Conn
	d *dialer
}

func newDialer(by options.ContextDialer) *dialer {
	return &dialer{by: by, open: map[*conn]struct{}{}}
}

// DialContext implements options.ContextDialer.
func (d *dialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	made, err := d.by.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cut {
		made.Close()
		return nil, net.ErrClosed
	}
	c := &conn{made, d}
	d.open[c] = struct{}{}
	return c, nil
}

// cutAll closes the connections, and those that are still being made.
func (d *dialer) cutAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cut = true
	for c := range d.open {
		_ = c.Conn.Close()
	}
	clear(d.open)
}

func (c *conn) Close() error {
	c.d.mu.Lock()
	delete(c.d.open, c)
	c.d.mu.Unlock()
	return c.Conn.Close()
}
