// Package remote reaches hosts by SSH: over a connection of package login it becomes root
// by sudo, runs commands and uploads files. Its Conn is the host.Host of the toolkit. It
// knows nothing of what is run.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
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

// Prepared is what Setup did for a host.
type Prepared struct {
	Host string
	// Trusted are the machines, bastions too, whose keys were added to the known hosts.
	Trusted []string
	// Key is the file whose key lets us in, or what the agent calls it.
	Key string
	// Installed is set when the key was put on the host.
	Installed bool
	Err       error
}

// Setup prepares hosts for logins by key, one after the other because it asks people: it
// records the hosts' own keys once their fingerprints are confirmed, makes a key for this
// user if there is none, and puts it on hosts that it does not open, with a password for
// the last time. If all that has been done already, it changes nothing.
func (d *Dialer) Setup(ctx context.Context, hosts []inventory.Host, o login.Confirmation) []Prepared {
	var all []Prepared
	for _, h := range hosts {
		p := Prepared{Host: h.Name}
		p.Err = d.prepare(ctx, h, o, &p)
		if errors.As(p.Err, new(*login.Fault)) {
			p.Err = login.Told(ctx, h.Name, p.Err)
		}
		all = append(all, p)
	}
	return all
}

func (d *Dialer) prepare(ctx context.Context, h inventory.Host, o login.Confirmation, p *Prepared) error {
	chain, err := d.Route(h)
	if err != nil {
		return err
	}
	for n := range chain {
		name, err := d.Trust(ctx, chain[:n+1], o)
		if err != nil {
			return err
		}
		if name != "" {
			p.Trusted = append(p.Trusted, name)
		}
	}
	t := chain[len(chain)-1]
	if p.Key, err = d.opens(ctx, h); err == nil {
		return nil
	}
	if !isAuth(err) {
		return err
	}
	file, public, err := d.OwnKey(ctx, t)
	if err != nil {
		return err
	}
	c, err := d.dial(ctx, h, login.Anyway)
	if isAuth(err) {
		return fmt.Errorf("%w\nhint: put %s there by hand: ssh-copy-id -i %[2]s, the provider's console, or somebody who can log in", withoutHint(err), login.QuoteArg(file+".pub"))
	}
	if err != nil {
		return err
	}
	defer c.Close()
	if err := install(ctx, c, public); err != nil {
		return err
	}
	p.Installed = true
	h.IdentityFile = file
	if p.Key, err = d.opens(ctx, h); err != nil {
		return fmt.Errorf("the key %s was put on the host, and does not open it: %w\nhint: the host's journal says why (journalctl -u ssh): AuthorizedKeysFile in sshd_config, or modes of the home folder", file, withoutHint(err))
	}
	return nil
}

// opens returns the key that lets us in, without passwords.
func (d *Dialer) opens(ctx context.Context, h inventory.Host) (string, error) {
	c, err := d.dial(ctx, h, login.ByKey)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return cmp.Or(h.IdentityFile, c.link.Key()), nil
}

func isAuth(err error) bool {
	var f *login.Fault
	return errors.As(err, &f) && f.Kind == login.Auth
}

// withoutHint removes the hint of a fault, which would be to do ssh:setup: that is in progress.
func withoutHint(err error) error {
	f, is := errors.AsType[*login.Fault](err)
	if !is {
		return err
	}
	bare := *f
	bare.Hint = ""
	return &bare
}

// install puts a key into authorized_keys of the login, unless it is there already.
func install(ctx context.Context, c *Conn, public ssh.PublicKey) error {
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	if _, err := c.Run(ctx, host.Command{Script: installing(line)}); err != nil {
		return fmt.Errorf("put the key on the host: %w", err)
	}
	return nil
}

// installing returns the script that puts a line of authorized_keys there, without its comment. A key in a line
// that is a comment is not there.
func installing(line string) string {
	return fmt.Sprintf(`cd && umask 077 && mkdir -p .ssh && chmod 700 .ssh && touch .ssh/authorized_keys && chmod 600 .ssh/authorized_keys || exit
key=%s
grep -v '^[[:blank:]]*#' .ssh/authorized_keys | grep -qF "$key" && exit 0
[ -z "$(tail -c 1 .ssh/authorized_keys)" ] || echo >>.ssh/authorized_keys
printf '%%s %%s\n' "$key" %s >>.ssh/authorized_keys && sync .ssh/authorized_keys`,
		host.Quote(line), host.Quote(host.Toolkit))
}

// Checked is the result of ssh:check for a host.
type Checked struct {
	Host   string
	Target string // user@address:port; "" if it was not reached
	// Err is why the toolkit cannot use it: unreachable, or no way to become root.
	Err   error
	Root  string // how we are root: "by sudo"
	Facts host.Facts
	// Disks are the file systems of /opt, /var/lib and /tmp.
	Disks []Disk
	// Skew is how far its clock is ahead of ours, 0 if that is less than the time that the
	// question took.
	Skew time.Duration
	// Warnings are problems that the operator may want to fix.
	Warnings []string
}

// Disk is a file system of a host.
type Disk struct {
	Path string // where it is mounted
	Free int64  // bytes
}

// Check looks at hosts, all at once, and changes nothing.
func (d *Dialer) Check(ctx context.Context, hosts []inventory.Host) []Checked {
	checked := make([]Checked, len(hosts))
	var wg sync.WaitGroup
	for i, h := range hosts {
		wg.Go(func() { checked[i] = d.check(ctx, h) })
	}
	wg.Wait()
	return checked
}

func (d *Dialer) check(ctx context.Context, h inventory.Host) Checked {
	r := Checked{Host: h.Name}
	c, err := d.Dial(ctx, h)
	if err != nil {
		r.Err = err
		return r
	}
	defer c.Close()
	r.Target = c.Target()
	var noFacts, noRoot error
	r.Facts, noFacts = host.FactsOf(ctx, c)
	unseen := r.look(ctx, c)
	r.Root, noRoot = c.Root(ctx)
	r.Err = errors.Join(noFacts, unseen, noRoot)
	r.warn()
	return r
}

// look asks for disks and time, for the time in a command of its own, so that the round
// trip is short.
func (r *Checked) look(ctx context.Context, c *Conn) error {
	out, err := c.Run(ctx, host.Command{Script: "df -Pk /opt /var/lib /tmp"})
	if err != nil {
		return err
	}
	r.Disks = parseDisks(out.Stdout)
	begun := time.Now()
	if out, err = c.Run(ctx, host.Command{Script: "date +%s.%N"}); err != nil {
		return err
	}
	took := time.Since(begun)
	seconds, err := strconv.ParseFloat(strings.TrimSpace(out.Stdout), 64)
	if err != nil {
		return fmt.Errorf("date wrote %q", out.Stdout)
	}
	there := time.Unix(0, int64(seconds*1e9))
	if skew := there.Sub(begun.Add(took / 2)); skew.Abs() > took/2 {
		r.Skew = skew.Round(time.Millisecond)
	}
	return nil
}

func parseDisks(text string) []Disk {
	var disks []Disk
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 6 {
			continue
		}
		free, err := strconv.ParseInt(fields[3], 10, 64)
		if err != nil { // the heading
			continue
		}
		d := Disk{Path: strings.Join(fields[5:], " "), Free: free << 10}
		if len(disks) == 0 || disks[len(disks)-1] != d {
			disks = append(disks, d)
		}
	}
	return disks
}

func (r *Checked) warn() {
	add := func(format string, args ...any) { r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...)) }
	if f := r.Facts; f.OS != "" {
		if f.Arch != "amd64" && f.Arch != "arm64" {
			add("its processor is %s: the daemon is built for amd64 and arm64", f.Arch)
		}
		if f.Systemd == 0 {
			add("it does not run systemd, which the service needs")
		}
	}
	if r.Skew.Abs() > 2*time.Second {
		add("its clock differs from this machine's by %s: is its time kept (chrony, systemd-timesyncd)?", r.Skew.Round(time.Second))
	}
	for _, d := range r.Disks {
		if d.Free < 200<<20 {
			add("%s has %s left", d.Path, mebibytes(d.Free))
		}
	}
}
