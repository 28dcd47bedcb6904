// Package mongoconn connects to MongoDB for packages that keep data there, and explains in plain
// words why that fails. Writes are acknowledged by the majority, and if asked for in its
// journals; reads return only such data, whatever the URI says. It knows no collections.
package mongoconn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"

	"github.com/cr-clawer/urifilter/daemon/internal/program/tlsdial"
)

// Options say which servers to connect to, and how.
type Options struct {
	// URI is MongoDB's connection string; it may hold a password and is not logged.
	URI string
	// TLS makes the connections, whatever the URI says about TLS; nil: the URI decides.
	TLS *tlsdial.Dialer
	// Database holds all collections.
	Database string
	// What is what errors begin with, before the hosts.
	What string
	// AppName is what the server's log calls the program.
	AppName string
	// Timeout bounds the selection of a server, and single operations. 0: 10 s.
	Timeout time.Duration
}

// Conn is a pool of connections. It is safe for concurrent use.
type Conn struct {
	opt       Options
	client    *mongo.Client
	dial      *dialer
	hosts     string
	answered  atomic.Bool // a server has answered, in MongoDB's protocol
	connected atomic.Bool
	lastBeat  atomic.Pointer[error]
}

// Connect makes a pool. It contacts no server, and fails only if the URI is malformed.
func Connect(o Options) (*Conn, error) {
	o.Timeout = cmp.Or(o.Timeout, 10*time.Second)
	c := &Conn{opt: o, dial: newDialer(&net.Dialer{})}
	co := options.Client().ApplyURI(o.URI).
		SetAppName(o.AppName).
		SetServerSelectionTimeout(o.Timeout).
		SetConnectTimeout(o.Timeout).
		SetServerMonitor(&event.ServerMonitor{
			ServerHeartbeatSucceeded: func(*event.ServerHeartbeatSucceededEvent) { c.answered.Store(true) },
			ServerHeartbeatFailed: func(e *event.ServerHeartbeatFailedEvent) {
				// The driver cancels a heartbeat when a call has failed: that says nothing about
				// the server.
				if !errors.Is(e.Failure, context.Canceled) {
					c.lastBeat.Store(&e.Failure)
				}
			},
			TopologyDescriptionChanged: func(e *event.TopologyDescriptionChangedEvent) {
				c.connected.Store(slices.ContainsFunc(e.NewDescription.Servers, takesWrites))
			},
		})
	if o.TLS != nil {
		co.TLSConfig = nil
		c.dial = newDialer(o.TLS)
	}
	co.SetDialer(c.dial)
	if err := co.Validate(); err != nil {
		// The driver's message may quote a part of the URI, even of the password.
		return nil, fmt.Errorf("%s: mongodb uri is malformed: want mongodb://user:password@host:port/ with user and password percent-encoded", o.What)
	}
	c.hosts = strings.Join(co.Hosts, ",")
	var err error
	if c.client, err = mongo.Connect(co); err != nil {
		return nil, c.Named(err)
	}
	return c, nil
}

// Database returns the database of the options: reads go to the primary and return what the
// majority has; writes wait for the majority and, with journal, for its disks.
func (c *Conn) Database(journal bool) *mongo.Database {
	acknowledged := writeconcern.Majority()
	if journal {
		acknowledged.Journal = &journal
	}
	return c.client.Database(c.opt.Database, options.Database().
		SetReadPreference(readpref.Primary()).
		SetReadConcern(readconcern.Majority()).
		SetWriteConcern(acknowledged))
}

// takesWrites reports whether writes may go to a server that the driver knows.
func takesWrites(s event.ServerDescription) bool {
	return slices.Contains([]string{"Standalone", "RSPrimary", "Mongos", "LoadBalancer"}, s.Kind)
}

// Connected reports whether a server that takes writes is known, without querying one: the driver
// checks all of them every ten seconds, and when a call fails.
func (c *Conn) Connected() bool { return c.connected.Load() }

// ServerTime returns the clock of the server that takes writes, to the millisecond, within
// Options.Timeout.
func (c *Conn) ServerTime(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opt.Timeout)
	defer cancel()
	var hello struct {
		LocalTime time.Time `bson:"localTime"`
	}
	err := c.client.Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}, options.RunCmd().SetReadPreference(readpref.Primary())).Decode(&hello)
	if err != nil {
		return time.Time{}, Explain(ctx, err)
	}
	return hello.LocalTime, nil
}

// Close ends the connections. No operation may be under way. Once ctx ends, it no longer waits
// for the server.
func (c *Conn) Close(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.dial.cutAll)()
	return c.client.Disconnect(ctx)
}

// Cut ends the connections without a word to the server.
func (c *Conn) Cut(ctx context.Context) {
	c.dial.cutAll()
	_ = c.client.Disconnect(context.WithoutCancel(ctx)) // nothing is under way
}

// Named prefixes an error with Options.What and the hosts.
func (c *Conn) Named(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s %s: %w", c.opt.What, c.hosts, err)
}

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
