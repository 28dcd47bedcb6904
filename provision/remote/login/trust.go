package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/skeema/knownhosts"
	"golang.org/x/crypto/ssh"
	xknownhosts "golang.org/x/crypto/ssh/knownhosts"
)

// Confirmation says which unknown keys of hosts are trusted.
type Confirmation struct {
	// Confirm asks a person yes or no; nil: nobody can be asked.
	Confirm func(ctx context.Context, question string) (bool, error)
	// Yes trusts keys of hosts without asking; Options.Say reports them.
	Yes bool
	// Fingerprints are trusted without asking: "SHA256:...", as the hosts' consoles or the
	// provider show them.
	Fingerprints []string
}

// Trust records the key of the last machine of a chain and returns its name, or "" if a
// key of it is known already.
func (d *Dialer) Trust(ctx context.Context, chain []Target, o Confirmation) (string, error) {
	t := chain[len(chain)-1]
	ring, err := t.keyring()
	if err != nil {
		return "", err
	}
	// The login shows whether it is the right one. sshd dislikes clients that only look.
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

// hostKey asks the last machine of a chain for its key and hangs up.
func (d *Dialer) hostKey(ctx context.Context, chain []Target, ring *keyring) (ssh.PublicKey, error) {
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

// keyring holds the known keys of one target.
type keyring struct {
	t          Target
	db         *knownhosts.HostKeyDB
	algorithms []string
}

func (t Target) keyring() (*keyring, error) {
	var files []string
	for _, file := range t.known {
		// A missing file has no keys.
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	db, err := knownhosts.NewDB(files...)
	if err != nil {
		return nil, fmt.Errorf("known hosts: %s\nhint: fix or remove that line", strings.TrimPrefix(err.Error(), "knownhosts: "))
	}
	return &keyring{t: t, db: db, algorithms: algorithms(db.HostKeyAlgorithms(t.keyName))}, nil
}

// algorithms returns the host key algorithms to ask for. Those of known keys come first, as a
// host shows one key only; then all others, so that a changed key can be distinguished from a
// missing common algorithm. Certificates are accepted if a CA is known for the host.
func algorithms(known []string) []string {
	weak := func(a string) bool {
		return slices.Contains(ssh.InsecureAlgorithms().HostKeys, a) || a == ssh.KeyAlgoRSA
	}
	all := slices.DeleteFunc(slices.Clone(known), weak)
	// Of the unknown ones, the type whose fingerprints people usually know comes first.
	for _, a := range append([]string{ssh.KeyAlgoED25519}, ssh.SupportedAlgorithms().HostKeys...) {
		if !slices.Contains(all, a) && !strings.Contains(a, "-cert-") && !weak(a) {
			all = append(all, a)
		}
	}
	return all
}

// check is called by the SSH library. An unknown key is a *Fault.
func (k *keyring) check(remote net.Addr, key ssh.PublicKey) error {
	err := k.db.HostKeyCallback()(k.t.keyName, remote, key)
	if err == nil {
		return nil
	}
	f := &Fault{Kind: HostKey, Target: k.t.String(), Err: err}
	var keyErr *xknownhosts.KeyError
	var revoked *xknownhosts.RevokedError
	switch {
	case errors.As(err, &revoked):
		f.Text = fmt.Sprintf("its key %s is revoked in %s:%d", describe(key), revoked.Revoked.Filename, revoked.Revoked.Line)
	case !errors.As(err, &keyErr):
		f.Text = fmt.Sprintf("its key %s: %v", describe(key), err)
	case len(keyErr.Want) > 0:
		was := keyErr.Want[0]
		for _, want := range keyErr.Want {
			if want.Key.Type() == key.Type() {
				was = want
			}
		}
		f.Text = fmt.Sprintf("its key has changed: it is %s, and %s:%d has %s. Somebody may be intercepting the connection, or the host was reinstalled",
			describe(key), was.Filename, was.Line, describe(was.Key))
		f.Hint = fmt.Sprintf("only if you know that it was reinstalled: ssh-keygen -R %s -f %s, then: go tool mage ssh:setup -hosts=%s",
			QuoteArg(xknownhosts.Normalize(k.t.keyName)), QuoteArg(was.Filename), k.t.name)
	default:
		f.Text = fmt.Sprintf("its key %s is not known in %s", describe(key), k.t.known[0])
		f.Hint = fmt.Sprintf("compare the fingerprint with what the host itself says (on its console: ssh-keygen -lf /etc/ssh/ssh_host_%s_key.pub), then: go tool mage ssh:setup -hosts=%s",
			keyKind(key), k.t.name)
	}
	return f
}

// isUnknown reports whether the fault is that the host has never been seen.
func isUnknown(err error) bool {
	var keyErr *xknownhosts.KeyError
	return errors.As(err, &keyErr) && len(keyErr.Want) == 0
}

func describe(key ssh.PublicKey) string { return key.Type() + " " + ssh.FingerprintSHA256(key) }

func keyKind(key ssh.PublicKey) string {
	switch t := key.Type(); {
	case strings.HasPrefix(t, "ecdsa"):
		return "ecdsa"
	case t == ssh.KeyAlgoRSA:
		return "rsa"
	default:
		return "ed25519"
	}
}

// QuoteArg returns a path or a login as one word of a command line that people paste, into a shell of any system. A user
// of a domain has a backslash in the name.
func QuoteArg(text string) string {
	if strings.ContainsAny(text, ` []*?\&;()<>|'`) {
		return `"` + text + `"`
	}
	return text
}

// remember appends a host's key to the first known_hosts file, under the name that was
// dialled, which is hashed if the others there are.
func (d *Dialer) remember(t Target, key ssh.PublicKey) (file string, err error) {
	d.known.Lock()
	defer d.known.Unlock()
	if len(t.known) == 0 {
		return "", errors.New("no file of known hosts: give one in known_hosts of the inventory")
	}
	file = t.known[0]
	if k, err := t.keyring(); err != nil {
		return "", err
	} else if k.check(&net.TCPAddr{IP: net.IPv4zero}, key) == nil {
		return file, nil // a connection at the same time was quicker
	}
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	name := xknownhosts.Normalize(t.keyName)
	line := xknownhosts.Line([]string{name}, key)
	if bytes.HasPrefix(old, []byte("|1|")) || bytes.Contains(old, []byte("\n|1|")) {
		line = xknownhosts.HashHostname(name) + strings.TrimPrefix(line, name)
	}
	if len(old) > 0 && old[len(old)-1] != '\n' {
		line = "\n" + line
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return "", err
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	_, err = f.WriteString(line + "\n")
	return file, errors.Join(err, f.Close())
}
