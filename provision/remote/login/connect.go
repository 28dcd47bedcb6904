package login

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
)

// hop is a bastion that several hosts share.
type hop struct {
	turn chan struct{} // held while it is being connected to
	link *Link
}

func (h *hop) close() {
	h.turn <- struct{}{}
	defer func() { <-h.turn }()
	if h.link != nil {
		h.link.Close()
		h.link = nil
	}
}

// via returns the open connection to the last of the bastions, or nil without bastions.
func (d *Dialer) via(ctx context.Context, chain []Target) (*Link, error) {
	if len(chain) == 0 {
		return nil, nil
	}
	last := chain[len(chain)-1]
	name := ""
	for _, t := range chain {
		// Users who trust other keys get their own connection.
		name += fmt.Sprintf("%s %q %v\n", t, t.known, t.trustNew)
	}
	d.mu.Lock()
	h := d.hops[name]
	if h == nil {
		h = &hop{turn: make(chan struct{}, 1)}
		d.hops[name] = h
	}
	closing := d.closing
	d.mu.Unlock()
	if closing {
		return nil, errors.New("the dialer is closed")
	}
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-h.turn }()
	if h.link != nil && h.link.Alive() {
		return h.link, nil
	}
	if h.link != nil {
		h.link.Close()
		h.link = nil
	}
	l, err := d.Connect(ctx, chain, Anyway)
	if err != nil {
		return nil, fmt.Errorf("bastion %s: %w", last.name, err)
	}
	h.link = l
	return l, nil
}

// maxTries bounds the retries of a dropped connection.
const maxTries = 6

// Connect logs in to the last host of a chain. If the connection to a bastion has
// been lost since, it reconnects once.
func (d *Dialer) Connect(ctx context.Context, chain []Target, how Ways) (*Link, error) {
	for again := false; ; again = true {
		bastion, err := d.via(ctx, chain[:len(chain)-1])
		if err != nil {
			return nil, err
		}
		l, err := d.through(ctx, bastion, chain[len(chain)-1], how)
		if err == nil || again || bastion == nil || bastion.Alive() || ctx.Err() != nil {
			return l, err
		}
	}
}

// through logs in to a host, over the connection to its bastion if that is not nil.
func (d *Dialer) through(ctx context.Context, bastion *Link, t Target, how Ways) (*Link, error) {
	select {
	case d.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-d.slots }()
	for try := 1; ; try++ {
		l, err := d.attempt(ctx, bastion, t, how)
		if err == nil {
			return l, nil
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		// sshd drops some connections when many arrive at once (MaxStartups), before it
		// sends its banner. No login has been tried then.
		if fault, is := errors.AsType[*Fault](err); !is || fault.Kind != Dropped || try == maxTries {
			return nil, err
		}
		pause := time.Duration(float64(d.o.Retry<<try) * (0.5 + rand.Float64()))
		if host.Sleep(ctx, pause) != nil {
			return nil, context.Cause(ctx)
		}
	}
}

func (d *Dialer) attempt(ctx context.Context, bastion *Link, t Target, how Ways) (*Link, error) {
	began := time.Now()
	conn, err := d.dialTCP(ctx, bastion, t)
	if err != nil {
		return nil, err
	}
	reached := time.Since(began)
	l, err := d.handshake(ctx, conn, t, how)
	if err != nil {
		conn.Close()
		if bastion != nil && !bastion.Alive() {
			return nil, bastion.Lost(err)
		}
		return nil, err
	}
	l.Reached = reached
	return l, nil
}

func (d *Dialer) dialTCP(ctx context.Context, bastion *Link, t Target) (net.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, d.o.Timeout)
	defer cancel()
	via := ""
	dial := (&net.Dialer{}).DialContext
	if bastion != nil {
		via, dial = bastion.t.name, bastion.Tunnel
	}
	conn, err := dial(dialing, "tcp", t.hostport())
	if err != nil {
		// Any answer of the bastion is an *ssh.OpenChannelError. Other errors mean that its
		// connection has ended, which others may be about to notice.
		if bastion != nil && !errors.As(err, new(*ssh.OpenChannelError)) && ctx.Err() == nil && !isTimeout(err) {
			bastion.end()
		}
		if bastion != nil && !bastion.Alive() {
			return nil, bastion.Lost(err)
		}
		return nil, dialFault(t, via, err)
	}
	return conn, nil
}

// handshake starts SSH on a connection: it checks the host's key, and logs in.
func (d *Dialer) handshake(ctx context.Context, conn net.Conn, t Target, how Ways) (*Link, error) {
	ring, err := t.keyring()
	if err != nil {
		return nil, err
	}
	// The library's own timeout ends with the TCP connection, and deadlines do not work
	// through bastions.
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p := newPatience(d.o.Timeout, func() { conn.Close() })
	l := &login{d: d, t: t, patience: p}
	heard := &listener{Conn: conn}
	var shown ssh.PublicKey
	var keyFault error
	config := &ssh.ClientConfig{
		User: t.user, Auth: l.methods(ctx, how), HostKeyAlgorithms: ring.algorithms,
		HostKeyCallback: func(_ string, remote net.Addr, key ssh.PublicKey) error {
			shown = key
			p.renew()
			if keyFault = ring.check(remote, key); keyFault != nil && t.trustNew && isUnknown(keyFault) {
				keyFault = d.trust(t, key)
			}
			return keyFault
		},
	}
	c, channels, requests, err := ssh.NewClientConn(heard, t.hostport(), config)
	p.end() // from here on nobody closes the connection for its silence
	if err == nil && !p.over() {
		return newLink(t, ssh.NewClient(c, channels, requests), l.signed, d.o.KeepAlive), nil
	}
	switch {
	case keyFault != nil:
		return nil, keyFault
	case shown == nil || p.over():
		return nil, d.silentFault(ctx, t, p, heard, err)
	case shown != nil && IsHangUp(err) && l.local == nil:
		return nil, &Fault{Kind: Lost, Target: t.String(), Text: "it hung up while we logged in", Err: err,
			Hint: "the host's journal says why: journalctl -u ssh"}
	}
	return nil, l.fault(err)
}

// silentFault returns why a machine that accepted the connection stays silent.
func (d *Dialer) silentFault(ctx context.Context, t Target, p *patience, heard *listener, err error) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case p.over():
		return &Fault{Kind: Timeout, Target: t.String(), Text: fmt.Sprintf("it took the connection, and then said nothing for %s", d.o.Timeout), Err: err,
			Hint: "is the host overloaded? is this the port of sshd?"}
	case heard.other() != "":
		return &Fault{Kind: Protocol, Target: t.String(), Text: fmt.Sprintf("what answers there is no sshd: %q", heard.other()), Err: err, Hint: "look at the port in the inventory"}
	case IsHangUp(err):
		return &Fault{Kind: Dropped, Target: t.String(), Text: fmt.Sprintf("it hung up before it said who it is, %d times", maxTries), Err: err,
			Hint: "sshd does so when too many connect at once (MaxStartups), when it punishes an address (PerSourcePenalties), or by a firewall such as fail2ban: wait a minute and try again"}
	}
	return &Fault{Kind: Protocol, Target: t.String(), Text: plain(err), Err: err, Hint: "is its sshd of this decade?"}
}

// trust implements accept-new for the key of an unknown host.
func (d *Dialer) trust(t Target, key ssh.PublicKey) error {
	file, err := d.remember(t, key)
	if err != nil {
		return err
	}
	d.o.Say(t.name, fmt.Sprintf("trusts the key %s of %s, seen for the first time, and remembers it in %s", describe(key), t.hostport(), file))
	return nil
}
