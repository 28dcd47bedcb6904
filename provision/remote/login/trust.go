package login

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"

	"golang.org/x/crypto/ssh"
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
