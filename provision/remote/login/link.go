package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
)

// Link is an open, authenticated connection with keepalives.
type Link struct {
	// Reached is how long it took until TCP was connected: about a round trip, however busy the host is; through a bastion
	// with the bastion's answer, and with the look-up of a name.
	Reached time.Duration

	t      Target
	client *ssh.Client
	key    string // what let us in: a key's file, the agent's name of it; "" for a password
	every  time.Duration
	ended  chan struct{} // closed when the connection has ended
	silent atomic.Bool   // it was closed because no sign of life came
	wg     sync.WaitGroup

	mu     sync.Mutex
	closed bool // nothing may be started for it
}

// aliveMisses is how many keepalives may stay unanswered.
const aliveMisses = 3

func newLink(t Target, client *ssh.Client, key string, every time.Duration) *Link {
	l := &Link{t: t, client: client, key: key, every: every, ended: make(chan struct{})}
	l.wg.Go(l.keepAlive)
	l.wg.Go(func() {
		_ = client.Wait() // those who use it are told how it ended
		close(l.ended)
	})
	return l
}

// keepAlive closes the connection when aliveMisses intervals have passed without an
// answer. Any answer will do: hosts usually refuse the request.
func (l *Link) keepAlive() {
	tick := time.NewTicker(l.every)
	defer tick.Stop()
	answers := make(chan struct{}, 1)
	waiting, misses := false, 0
	for {
		select {
		case <-l.ended:
			if waiting {
				<-answers
			}
			return
		case <-answers:
			waiting, misses = false, 0
		case <-tick.C:
			if waiting {
				if misses++; misses == aliveMisses {
					l.silent.Store(true)
					l.client.Close()
				}
				continue
			}
			waiting = true
			l.wg.Go(func() {
				_, _, _ = l.client.SendRequest("keepalive@openssh.com", true, nil) // an error is the end
				answers <- struct{}{}
			})
		}
	}
}

// Alive reports whether the connection is still open.
func (l *Link) Alive() bool {
	select {
	case <-l.ended:
		return false
	default:
		return !l.silent.Load()
	}
}

// Start runs f, which ends with the connection at the latest, unless Close has already
// been called.
func (l *Link) Start(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.wg.Go(f)
	}
	return !l.closed
}

// end closes the connection, and returns when it has ended for everybody.
func (l *Link) end() {
	l.client.Close()
	<-l.ended
}

// Close ends it and waits for all that runs for it.
func (l *Link) Close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.client.Close()
	l.wg.Wait()
}

// Lost is the fault of a connection that died with err.
func (l *Link) Lost(err error) *Fault {
	f := &Fault{Kind: Lost, Target: l.t.String(), Text: "the connection was lost: " + plain(err), Err: err,
		Hint: "look whether the host is up, and run it again: what is done stays done"}
	if l.silent.Load() {
		f.Text = fmt.Sprintf("no answer for %s", l.every*aliveMisses)
	} else if IsHangUp(err) || errors.As(err, new(*ssh.ExitMissingError)) {
		f.Text = "the connection was cut"
	}
	return f
}

// Target is who we are there.
func (l *Link) Target() Target { return l.t }

// Key is what let us in: a key's file, or what the agent calls it; "" for a password.
func (l *Link) Key() string { return l.key }

// Client is the library's end of it.
func (l *Link) Client() *ssh.Client { return l.client }

// Ended is closed when the connection has ended.
func (l *Link) Ended() <-chan struct{} { return l.ended }

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
