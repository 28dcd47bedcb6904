package login

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/crypto/ssh"
)

// OwnKey returns the key to put on a host: the first that would be offered, or a new one.
func (d *Dialer) OwnKey(ctx context.Context, t Target) (file string, public ssh.PublicKey, err error) {
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
		return t.must[0], nil, fmt.Errorf("identity file %s does not exist\nhint: ssh-keygen -t ed25519 -f %[1]s", t.must[0])
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

// makeKey makes a key without a passphrase, as ssh-keygen does after an empty answer.
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
		return nil, fmt.Errorf("%s exists, and is not a usable key: name another one in identity_file", file)
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
	d.o.Say("", fmt.Sprintf("made the key %s, %s, without a passphrase; ssh-keygen -p -f %s gives it one", file, ssh.FingerprintSHA256(key), QuoteArg(file)))
	return key, os.WriteFile(file+".pub", []byte(line), 0o644) //nolint:gosec // public
}
