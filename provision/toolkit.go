package provision

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/provision/fleet"
	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/program"
	"github.com/cr-clawer/urifilter/provision/remote"
	"github.com/cr-clawer/urifilter/provision/remote/login"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/secret"
)

// Toolkit executes one target.
type Toolkit struct {
	o           Options
	out, errs   io.Writer // of o; what hosts have written is safe there
	inventory   *inventory.Inventory
	program     program.Program
	hosts       []inventory.Host          // the chosen ones
	tokens      map[string]configs.Tokens // by program, where there is a tokens file
	display     *report.Display
	asking      sync.Mutex // held while a person types a secret
	masker      *secret.Masker
	dialer      *remote.Dialer
	connections connections
	renew       time.Time // older certificates are renewed
	more        []string  // flags that only this target has, as given
}

// Open reads the inventory and chooses hosts. Its errors are usage errors: fleet.CodeUsage.
func Open(o Options) (*Toolkit, error) {
	t, err := open(o)
	return t, fleet.Usage(err)
}

func open(o Options) (*Toolkit, error) {
	o.complete()
	inv, notice, err := inventory.Open(o.source())
	if err != nil {
		return nil, err
	}
	hosts, err := inv.Choose(o.Hosts)
	if err != nil {
		return nil, err
	}
	p, err := o.chosen()
	if err != nil {
		return nil, err
	}
	if err := rolesFit(inv, o.Programs); err != nil {
		return nil, err
	}
	t := &Toolkit{o: o, out: terminal.Protect(o.Stdout), errs: terminal.Protect(o.Stderr), inventory: inv, program: p, hosts: hosts, masker: &secret.Masker{}}
	if err := t.readTokens(); err != nil {
		return nil, err
	}
	if t.display, err = report.Open(report.Options{Stdout: o.Stdout, Stderr: o.Stderr, JSON: o.JSON, Verbose: o.Verbose, Getenv: o.Getenv}); err != nil {
		return nil, err
	}
	if notice != "" {
		fmt.Fprintln(t.errs, notice)
	}
	t.dialer = remote.New(login.Options{
		Ask: t.prompter(), Say: t.say, Secret: func(text string) { t.masker.Add(text) }, Getenv: o.Getenv,
	})
	return t, nil
}

// Close ends the display and the connections to bastions.
func (t *Toolkit) Close() error {
	t.display.Close()
	t.connections.close()
	return t.dialer.Close()
}

// prompter returns a function that asks the person at the terminal for a secret; nil without a terminal.
func (t *Toolkit) prompter() func(context.Context, string) (string, error) {
	ask := login.Terminal(t.o.Stdin, t.errs)
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, prompt string) (string, error) {
		t.asking.Lock()
		defer t.asking.Unlock()
		defer t.display.Pause()()
		return ask(ctx, prompt)
	}
}

// say shows people a message from outside the steps of a run.
func (t *Toolkit) say(host, text string) {
	t.display.Emit(report.Event{Kind: report.Said, Time: time.Now(), Host: host, Text: t.masker.Mask(text)})
}

// with returns the chosen hosts that have a role.
func (t *Toolkit) with(role string) []inventory.Host { return inventory.Having(t.hosts, role) }

// running returns the chosen hosts that run a program.
func (t *Toolkit) running(p program.Program) []inventory.Host {
	return inventory.Having(t.hosts, p.Roles...)
}

// daemonHosts returns the hosts of the targets' program, at least one.
func (t *Toolkit) daemonHosts() ([]inventory.Host, error) {
	return t.nonEmpty(t.running(t.program), strings.Join(t.program.Roles, " or "))
}

// rolesFit returns an error if roles conflict.
func rolesFit(inv *inventory.Inventory, programs []program.Program) error {
	var faults []error
	for n, h := range inv.Hosts {
		for _, p := range programs {
			if _, err := p.For(h.Roles); err != nil {
				faults = append(faults, fmt.Errorf("%s: hosts[%d].roles: %w", inv.From(), n, err))
			}
		}
	}
	for _, p := range programs {
		for _, role := range p.Single {
			if with := inv.With(role); len(with) > 1 {
				faults = append(faults, fmt.Errorf("%s: hosts: %s and %s have the role %s: want one", inv.From(), with[0].Name, with[1].Name, role))
			}
		}
	}
	return errors.Join(faults...)
}

// programs returns the programs of the chosen hosts, at least one.
func (t *Toolkit) programs() ([]program.Program, error) {
	programs := slices.DeleteFunc(slices.Clone(t.o.Programs), func(p program.Program) bool { return len(t.running(p)) == 0 })
	if len(programs) == 0 {
		_, err := t.nonEmpty(nil, strings.Join(program.Roles(t.o.Programs), " or "))
		return nil, err
	}
	return programs, nil
}

// nonEmpty requires at least one host.
func (t *Toolkit) nonEmpty(hosts []inventory.Host, role string) ([]inventory.Host, error) {
	if len(hosts) == 0 {
		var names []string
		for _, h := range t.hosts {
			names = append(names, h.Name)
		}
		return nil, fleet.Usage(fmt.Errorf("none of the hosts has the role %s: %s", role, strings.Join(names, ", ")))
	}
	return hosts, nil
}

// connect opens the connection to a host.
func (t *Toolkit) connect(h inventory.Host) func(context.Context) (host.Host, io.Closer, error) {
	return func(ctx context.Context) (host.Host, io.Closer, error) {
		if conn := t.connections.get(h.Name, true); conn != nil {
			return conn, conn, nil
		}
		conn, err := t.dialer.Dial(ctx, h)
		if err != nil {
			return nil, nil, err
		}
		t.connections.add(h.Name, conn, true)
		return conn, conn, nil
	}
}

// connections are those that are open: on a long line a login takes longer than most of what it is for.
type connections struct {
	mu  sync.Mutex
	now map[string]connection // the last of each host
	all []*remote.Conn
}

type connection struct {
	*remote.Conn
	lent bool // to the run, which closes it; else it is of visits
}

// get returns an open connection, nil if there is none. With lend it is for the run, which has not had it before.
func (c *connections) get(name string, lend bool) *remote.Conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.now[name]
	if at.Conn == nil || !at.Alive() || lend && at.lent {
		return nil
	}
	c.now[name] = connection{at.Conn, at.lent || lend}
	return at.Conn
}

func (c *connections) add(name string, conn *remote.Conn, lent bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.now == nil {
		c.now = map[string]connection{}
	}
	c.now[name] = connection{conn, lent}
	c.all = append(c.all, conn)
}

// close closes all of them, those of the run once more.
func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.all {
		_ = conn.Close() // what it was used for is over
	}
}

// visit runs a function on a host that need not be part of the run.
func (t *Toolkit) visit(ctx context.Context, h inventory.Host, do func(host.Host) error) error {
	if conn := t.connections.get(h.Name, false); conn != nil {
		return do(conn)
	}
	conn, err := t.dialer.Dial(ctx, h)
	if err != nil {
		return err
	}
	defer t.connections.add(h.Name, conn, false)
	return do(conn)
}

// yes asks a question. Options.Yes answers it with yes.
func (t *Toolkit) yes(question string) (bool, error) {
	if t.o.Yes {
		return true, nil
	}
	if !term.IsTerminal(int(t.o.Stdin.Fd())) {
		return false, fmt.Errorf("%s: there is no terminal to ask at\nhint: -yes answers", question)
	}
	defer t.display.Pause()()
	fmt.Fprint(t.errs, question+" [y/N] ")
	line, err := bufio.NewReader(t.o.Stdin).ReadString('\n')
	if err != nil && line == "" {
		return false, err
	}
	line = strings.ToLower(strings.TrimSpace(line))
	return line == "y" || line == "yes", nil
}

// json reports whether answers are wanted as JSON lines.
func (t *Toolkit) json() bool { return t.o.JSON || t.o.Getenv("URIFILTER_OUTPUT") == "json" }
