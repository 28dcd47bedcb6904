package remote

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/crypto/ssh"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/inventory"
)

// SetupOptions say what Setup may do by itself.
type SetupOptions struct {
	// Confirm asks a person yes or no; nil: nobody can be asked.
	Confirm func(ctx context.Context, question string) (bool, error)
	// Yes trusts keys of hosts without asking; they are told by Options.Say.
	Yes bool
	// Fingerprints that are trusted without asking: "SHA256:...", as the hosts' consoles
	// or the provider tell them.
	Fingerprints []string
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

// Setup makes hosts ready for logins by key, one after the other as it asks people: it
// records the hosts' own keys once their fingerprints are confirmed, makes a key for this
// user if there is none, and puts it on hosts that it does not open, with a password for
// the last time. Where all that is done already it changes nothing.
func (d *Dialer) Setup(ctx context.Context, hosts []inventory.Host, o SetupOptions) []Prepared {
	var all []Prepared
	for _, h := range hosts {
		p := Prepared{Host: h.Name}
		p.Err = d.prepare(ctx, h, o, &p)
		if errors.As(p.Err, new(*Fault)) {
			p.Err = told(ctx, h.Name, p.Err)
		}
		all = append(all, p)
	}
	return all
}

func (d *Dialer) prepare(ctx context.Context, h inventory.Host, o SetupOptions, p *Prepared) error {
	chain, err := d.route(h)
	if err != nil {
		return err
	}
	for n := range chain {
		name, err := d.trustChain(ctx, chain[:n+1], o)
		if err != nil {
			return err
		}
		if name != "" {
			p.Trusted = append(p.Trusted, name)
		}
	}
	t := chain[len(chain)-1]
	if p.Key, err = d.opens(ctx, h, t); err == nil {
		return nil
	}
	if !isAuth(err) {
		return err
	}
	file, public, err := d.ownKey(ctx, t)
	if err != nil {
		return err
	}
	c, err := d.dial(ctx, h, anyway)
	if isAuth(err) {
		return fmt.Errorf("%w\nhint: put %s there by hand: ssh-copy-id -i %[2]s, the provider's console, or somebody who can log in", withoutHint(err), quoteArg(file+".pub"))
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
	if p.Key, err = d.opens(ctx, h, t); err != nil {
		return fmt.Errorf("the key %s was put on the host, and does not open it: %w\nhint: the host's journal says why (journalctl -u ssh): AuthorizedKeysFile in sshd_config, or modes of the home folder", file, withoutHint(err))
	}
	return nil
}

// trustChain records the key of the last of a chain, unless it is known. The name that it
// returns is "" then.
func (d *Dialer) trustChain(ctx context.Context, chain []target, o SetupOptions) (string, error) {
	t := chain[len(chain)-1]
	ring, err := t.keyring()
	if err != nil {
		return "", err
	}
	// Whether it is the right one shows at the login. sshd dislikes those who only look.
	if len(ring.db.HostKeys(t.keyName)) > 0 {
		return "", nil
	}
	key, err := d.hostKey(ctx, chain, ring)
	if err != nil {
		return "", err
	}
	err = ring.check(&net.TCPAddr{IP: net.IPv4zero}, key)
	if err == nil || !isUnknown(err) {
		return "", err
	}
	print := ssh.FingerprintSHA256(key)
	switch {
	case slices.Contains(o.Fingerprints, print) || o.Yes:
		d.o.Say(t.name, fmt.Sprintf("trusts the key %s of %s", describe(key), t.hostport()))
	case o.Confirm == nil && len(o.Fingerprints) > 0:
		return "", fmt.Errorf("%s has the key %s, which is not among those given with -fingerprint: nothing was done\nhint: look at it on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub); if it shows another one, somebody is intercepting the connection",
			t.hostport(), describe(key), keyKind(key))
	case o.Confirm == nil:
		return "", fmt.Errorf("%s has the key %s, and there is no terminal to ask whether it is right\nhint: look at it on the host's console (ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub), then give -fingerprint=%s, or -yes if nobody can intercept the connection",
			t.hostport(), describe(key), keyKind(key), print)
	default:
		yes, err := o.Confirm(ctx, fmt.Sprintf("%s at %s shows the key %s. Is that its fingerprint?", t.name, t.hostport(), describe(key)))
		if err != nil {
			return "", err
		}
		if !yes {
			return "", fmt.Errorf("%s: its key was not confirmed, and nothing was done", t.hostport())
		}
	}
	_, err = d.remember(t, key)
	return t.String(), err
}

var errSeen = errors.New("the key was seen")

// hostKey asks the last of a chain for its key and hangs up.
func (d *Dialer) hostKey(ctx context.Context, chain []target, ring *keyring) (ssh.PublicKey, error) {
	bastion, err := d.via(ctx, chain[:len(chain)-1])
	if err != nil {
		return nil, err
	}
	t := chain[len(chain)-1]
	conn, err := d.dialTCP(ctx, bastion, t)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	p := newPatience(d.o.Timeout, func() { conn.Close() })
	defer p.end()
	heard := &listener{Conn: conn}
	var key ssh.PublicKey
	_, _, _, err = ssh.NewClientConn(heard, t.hostport(), &ssh.ClientConfig{
		User: t.user, HostKeyAlgorithms: ring.algorithms,
		HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
			key = k
			return errSeen
		},
	})
	if key == nil {
		return nil, d.silentFault(ctx, t, p, heard, err)
	}
	return key, nil
}

// opens tells which key lets us in, without passwords.
func (d *Dialer) opens(ctx context.Context, h inventory.Host, t target) (string, error) {
	c, err := d.dial(ctx, h, byKey)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return or(h.IdentityFile, c.link.key), nil
}

func isAuth(err error) bool {
	var f *Fault
	return errors.As(err, &f) && f.Kind == Auth
}

// withoutHint is a fault whose next step would be ssh:setup, which is what is being done.
func withoutHint(err error) error {
	var f *Fault
	if !errors.As(err, &f) {
		return err
	}
	bare := *f
	bare.Hint = ""
	return &bare
}

// ownKey is the key to be put on a host: the first that would be offered, or a new one.
func (d *Dialer) ownKey(ctx context.Context, t target) (file string, public ssh.PublicKey, err error) {
	for _, f := range t.files {
		text, err := os.ReadFile(f)
		if err != nil {
			continue
		}
		signer, err := ssh.ParsePrivateKey(text)
		if err == nil {
			return f, signer.PublicKey(), nil
		}
		if public := publicOf(f, text, err); public != nil {
			return f, public, nil
		}
	}
	if len(t.must) > 0 {
		return t.must[0], nil, fmt.Errorf("identity file %s is not there\nhint: ssh-keygen -t ed25519 -f %[1]s", t.must[0])
	}
	offered, err := d.keys(ctx, t)
	if err != nil {
		return "", nil, err
	}
	if len(offered) > 0 {
		return offered[0].file, offered[0].PublicKey(), nil
	}
	file = filepath.Join(d.o.Home, ".ssh", "id_ed25519")
	public, err = d.makeKey(file)
	return file, public, err
}

// makeKey makes a key without a passphrase, as an empty answer to ssh-keygen makes it.
func (d *Dialer) makeKey(file string) (ssh.PublicKey, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	name, _ := os.Hostname() // only a comment
	comment := d.user + "@" + name
	block, err := ssh.MarshalPrivateKey(private, comment)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%s is there, and is not a usable key: name another one in identity_file", file)
	} else if err != nil {
		return nil, err
	}
	if err := errors.Join(pem.Encode(f, block), f.Close()); err != nil {
		return nil, err
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment + "\n"
	d.o.Say("", fmt.Sprintf("made the key %s, %s, without a passphrase; ssh-keygen -p -f %s gives it one", file, ssh.FingerprintSHA256(key), quoteArg(file)))
	return key, os.WriteFile(file+".pub", []byte(line), 0o644) //nolint:gosec // public
}

// install puts a key into authorized_keys of the login, unless it is there.
func install(ctx context.Context, c *Conn, public ssh.PublicKey) error {
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(public)))
	script := fmt.Sprintf(`cd && umask 077 && mkdir -p .ssh && chmod 700 .ssh && touch .ssh/authorized_keys && chmod 600 .ssh/authorized_keys || exit
key=%s
grep -qF "$key" .ssh/authorized_keys && exit 0
[ -z "$(tail -c 1 .ssh/authorized_keys)" ] || echo >>.ssh/authorized_keys
printf '%%s %%s\n' "$key" %s >>.ssh/authorized_keys && sync .ssh/authorized_keys`,
		host.Quote(line), host.Quote("urifilter-toolkit"))
	if _, err := c.Run(ctx, host.Command{Script: script}); err != nil {
		return fmt.Errorf("put the key on the host: %w", err)
	}
	return nil
}
