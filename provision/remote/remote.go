// Package remote reaches hosts by SSH: over a connection of package login it becomes root
// by sudo, runs commands and uploads files. Its Conn is the host.Host of the toolkit. It
// knows nothing of what is run.
package remote

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// Dialer opens connections to hosts. It is safe for concurrent use.
type Dialer struct {
	*login.Dialer
	sudoWait time.Duration
	killWait time.Duration
}

// New returns a Dialer. Close ends what it has opened for itself.
func New(o login.Options) *Dialer {
	return &Dialer{Dialer: login.New(o), sudoWait: sudoWait, killWait: killWait}
}

// Dial connects and logs in. The error is a *host.ConnectionError around a *login.Fault if the
// host could not be reached, did not prove who it is, or did not let us in; any other error
// is a fault in the settings of this machine.
func (d *Dialer) Dial(ctx context.Context, h inventory.Host) (*Conn, error) {
	return d.dial(ctx, h, login.Anyway)
}

func (d *Dialer) dial(ctx context.Context, h inventory.Host, how login.Ways) (*Conn, error) {
	chain, err := d.Route(h)
	if err != nil {
		return nil, fmt.Errorf("host %s: %w", h.Name, err)
	}
	l, err := d.Connect(ctx, chain, how)
	if err == nil {
		c := newConn(d, h, l)
		if err = c.greet(ctx); err == nil {
			return c, nil
		}
		c.Close()
	}
	return nil, login.Told(ctx, h.Name, err)
}
