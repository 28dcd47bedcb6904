package remote

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

// Conn is a connection to a host, logged in. It implements host.Host.
type Conn struct {
	host     inventory.Host
	dialer   *Dialer
	link     *login.Link
	sessions chan struct{} // sshd allows so many at once
	reserve  chan struct{} // and these, to end commands
	shells   chan struct{} // and these, for standing shells
	patience time.Duration // with a refusal to open a session
	spares   spares

	standings standings

	killer killer

	uid  int
	home string

	root struct {
		turn  chan struct{} // held while it is found out
		known bool
		way   rootWay
		err   error
	}
}

var _ host.Host = (*Conn)(nil)

// Together with the spare one these are the 10 that sshd allows on a connection (MaxSessions).
const (
	maxSessions = 5
	maxReserve  = 2
	maxShells   = 2 // as root, and as the login
)

// sessionPatience is how long a refused session is retried.
const sessionPatience = 5 * time.Second

func newConn(d *Dialer, h inventory.Host, l *login.Link) *Conn {
	c := &Conn{host: h, dialer: d, link: l, sessions: make(chan struct{}, maxSessions), reserve: make(chan struct{}, maxReserve), shells: make(chan struct{}, maxShells), patience: sessionPatience}
	c.root.turn = make(chan struct{}, 1)
	return c
}

// Alive reports whether the connection is still open.
func (c *Conn) Alive() bool { return c.link.Alive() }

// Name is the host's name in the inventory.
func (c *Conn) Name() string { return c.host.Name }

// Target is our login: user@address:port.
func (c *Conn) Target() string { return c.link.Target().String() }

// Close closes the connection and ends everything that runs over it.
func (c *Conn) Close() error {
	c.link.Close()
	return nil
}

// greet asks the host for our user id and home folder.
func (c *Conn) greet(ctx context.Context) error {
	out, err := c.Run(ctx, host.Command{Script: `id -u && printf '%s\n' "$HOME"`, Look: true})
	if err != nil {
		return err
	}
	id, home, _ := strings.Cut(out.Stdout, "\n")
	c.home = strings.TrimSpace(home)
	if c.uid, err = strconv.Atoi(id); err != nil {
		return fmt.Errorf("id -u wrote %q", out.Stdout)
	}
	return nil
}

// DialContext connects through the SSH connection to an address as the host resolves it. The
// error is login.ErrForbidden if sshd does not allow that.
func (c *Conn) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.link.Tunnel(ctx, network, address)
	switch {
	case err == nil:
		return conn, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case login.Forbidden(err):
		return nil, fmt.Errorf("%s from %s: %w", address, c.Name(), errors.Join(login.ErrForbidden, err))
	case !c.link.Alive():
		return nil, c.lost(err)
	}
	if open, is := errors.AsType[*ssh.OpenChannelError](err); is {
		return nil, fmt.Errorf("%s from %s: %s", address, c.Name(), open.Message)
	}
	return nil, fmt.Errorf("%s from %s: %w", address, c.Name(), err)
}

// lost returns the error of a connection that died.
func (c *Conn) lost(err error) error {
	return &host.ConnectionError{Host: c.Name(), Err: c.link.Lost(err)}
}

// turn waits until room (sessions or reserve) has a free slot. The function that it returns frees it.
func (c *Conn) turn(ctx context.Context, room chan struct{}) (func(), error) {
	select {
	case room <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-c.link.Ended():
		return nil, c.lost(errors.New("it has ended"))
	}
	return sync.OnceFunc(func() { <-room }), nil
}

// channel returns a session for one command, and opens spare ones for the next.
func (c *Conn) channel(ctx context.Context, room chan struct{}) (*channel, func(), error) {
	give, err := c.turn(ctx, room)
	if err != nil {
		return nil, nil, err
	}
	ch := c.spares.take()
	if ch == nil {
		if ch, err = opened(ctx, c, func() (*channel, error) { return newChannel(c.link.Client()) }); err != nil {
			give()
			return nil, nil, err
		}
	}
	for c.spares.wanted() {
		if !c.link.Start(func() { c.spares.open(c.link.Client()) }) {
			break
		}
	}
	return ch, give, nil
}

// session opens a session of the library, for SFTP.
func (c *Conn) session(ctx context.Context, room chan struct{}) (*ssh.Session, func(), error) {
	give, err := c.turn(ctx, room)
	if err != nil {
		return nil, nil, err
	}
	s, err := opened(ctx, c, c.link.Client().NewSession)
	if err != nil {
		give()
		return nil, nil, err
	}
	return s, give, nil
}

// opened opens a session. sshd counts a session for a moment after its end, so a refusal is
// retried before it is reported; meanwhile spare ones are given up.
func opened[S any](ctx context.Context, c *Conn, open func() (S, error)) (S, error) {
	var none S
	for began, pause := time.Now(), 20*time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := open()
		if err == nil {
			return s, nil
		}
		if unused := c.spares.take(); unused != nil {
			unused.Close()
		}
		if time.Since(began) > c.patience/10 {
			c.standings.giveUp()
		}
		open, is := errors.AsType[*ssh.OpenChannelError](err)
		if !is {
			return none, c.lost(err)
		}
		if time.Since(began) > c.patience {
			return none, fmt.Errorf("%s: sshd opens no session: %s\nhint: MaxSessions in its sshd_config must be 2 or more, and 10 is the usual", c.Name(), open.Message)
		}
		if host.Sleep(ctx, pause) != nil {
			return none, context.Cause(ctx)
		}
	}
}

// killWait bounds the wait for the end of an interrupted command. Tests may set another
// time.
const killWait = 2 * time.Second

// killScript ends the processes of commands: those with one of the words in their
// arguments or environment, and all their descendants. It sends SIGHUP as a terminal does,
// and, where that does not help, the signals of a service stop. The words come by
// standard input, so that the script does not find itself.
const killScript = `roots=$(grep -lsaF -f - /proc/[0-9]*/cmdline /proc/[0-9]*/environ)
[ -n "$roots" ] || exit 0
all=$(cat /proc/[0-9]*/stat 2>/dev/null | awk -v roots="$roots" '
	{ pid = $1; sub(/^.*[)] /, ""); parent[pid] = $2 }
	END {
		n = split(roots, path, "\n")
		for (i = 1; i <= n; i++) { split(path[i], part, "/"); tree[part[3]] = 1 }
		do {
			more = 0
			for (p in parent) if (!(p in tree) && (parent[p] in tree)) { tree[p] = 1; more = 1 }
		} while (more)
		for (p in tree) print p
	}')
kill -HUP $all 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10; do
	left=
	for p in $all; do [ -d "/proc/$p" ] && left=1; done
	[ -n "$left" ] || exit 0
	sleep 0.1
done
kill -TERM $all 2>/dev/null
exit 0`

// killer collects commands that are to be ended at the same time, as when a run is
// interrupted, so that one session is enough for all.
type killer struct {
	mu      sync.Mutex
	batches map[identity]*killBatch
}

type killBatch struct {
	words strings.Builder
	done  chan struct{}
}

// gather is how long a batch waits for more commands.
const gather = 20 * time.Millisecond

// kill ends the command with a word on the host. It waits no longer than the Dialer's killWait.
func (c *Conn) kill(ctx context.Context, as identity, word string) {
	if as.user != "" { // whoever may become that user may become root
		as = as.asRoot()
	}
	c.killer.mu.Lock()
	b := c.killer.batches[as]
	if b == nil {
		b = &killBatch{done: make(chan struct{})}
		if c.killer.batches == nil {
			c.killer.batches = map[identity]*killBatch{}
		}
		c.killer.batches[as] = b
		if !c.link.Start(func() { c.killAll(ctx, as, b) }) {
			close(b.done) // the connection is closed, and ends them
		}
	}
	b.words.WriteString(word + "\n")
	c.killer.mu.Unlock()
	<-b.done
}

func (c *Conn) killAll(ctx context.Context, as identity, b *killBatch) {
	defer close(b.done)
	time.Sleep(gather)
	c.killer.mu.Lock()
	delete(c.killer.batches, as)
	words := b.words.String()
	c.killer.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, c.dialer.killWait)
	defer cancel()
	_, _ = c.exec(ctx, as, host.Command{Script: killScript, Stdin: strings.NewReader(words)}, false)
}
