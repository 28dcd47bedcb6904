package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
	"github.com/cr-clawer/urifilter/provision/remote/login"
)

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
	var f *login.Fault
	if !errors.As(err, &f) {
		return err
	}
	bare := *f
	bare.Hint = ""
	return &bare
}

// install puts a key into authorized_keys of the login, unless it is there already.
func install(ctx context.Context, c *Conn, public ssh.PublicKey) error {
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	script := fmt.Sprintf(`cd && umask 077 && mkdir -p .ssh && chmod 700 .ssh && touch .ssh/authorized_keys && chmod 600 .ssh/authorized_keys || exit
key=%s
grep -qF "$key" .ssh/authorized_keys && exit 0
[ -z "$(tail -c 1 .ssh/authorized_keys)" ] || echo >>.ssh/authorized_keys
printf '%%s %%s\n' "$key" %s >>.ssh/authorized_keys && sync .ssh/authorized_keys`,
		host.Quote(line), host.Quote(host.Toolkit))
	if _, err := c.Run(ctx, host.Command{Script: script}); err != nil {
		return fmt.Errorf("put the key on the host: %w", err)
	}
	return nil
}
