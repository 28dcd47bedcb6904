package login

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// key is a key that can be offered to a host.
type key struct {
	ssh.Signer
	from string // for people: a file, or the agent's comment
	file string // "" for one of the agent
}

// keys returns the keys to offer to a target, in this order: the configured files,
// the agent's keys, and, if no file is configured, the default files of ssh.
func (d *Dialer) keys(ctx context.Context, t Target) ([]key, error) {
	held := d.agents.keys(t.agent)
	var offered []key
	add := func(keys []key) {
		for _, k := range keys {
			if !slices.ContainsFunc(offered, func(o key) bool { return sameKey(o.PublicKey(), k.PublicKey()) }) {
				offered = append(offered, k)
			}
		}
	}
	for _, path := range t.files {
		found, err := d.keyFile(ctx, path, held)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !slices.Contains(t.must, path):
		case err != nil:
			return nil, fmt.Errorf("identity file: %w", err)
		default:
			add(found)
		}
	}
	if !t.only {
		add(held)
	}
	if len(t.files) == 0 {
		for _, name := range []string{"id_ed25519", "id_ecdsa", "id_rsa"} {
			// An unreadable default file is skipped: nobody has configured it.
			found, _ := d.keyFile(ctx, filepath.Join(d.o.Home, ".ssh", name), held)
			add(found)
		}
	}
	return offered, nil
}

// keyFile reads a private key, with its certificate first where there is one. The
// agent's copy goes before an encrypted file, as it needs no passphrase.
func (d *Dialer) keyFile(ctx context.Context, path string, held []key) ([]key, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	signer, err := ssh.ParsePrivateKey(text)
	var locked *ssh.PassphraseMissingError
	switch public := publicOf(path, text, err); {
	case err == nil:
	case public != nil && heldKey(held, public) != nil:
		signer = heldKey(held, public)
	case errors.As(err, &locked) && public != nil:
		signer = &lockedKey{public: public, open: func() (ssh.Signer, error) { return d.unlock(ctx, path, text) }}
	case errors.As(err, &locked):
		if signer, err = d.unlock(ctx, path, text); err != nil {
			return nil, err
		}
	case public != nil:
		return nil, fmt.Errorf("%s: the agent does not hold this key, and it cannot be used without: %w", path, err)
	default:
		return nil, fmt.Errorf("%s: not a private key that can be used: %w", path, err)
	}
	found := []key{{signer, path, path}}
	if cert := certificate(path, signer); cert != nil {
		found = slices.Insert(found, 0, key{cert, path + "-cert.pub", path})
	}
	return found, nil
}

// publicOf returns the public key of a key file, from the file itself or the .pub beside it,
// or nil if it is unknown.
func publicOf(path string, text []byte, parse error) ssh.PublicKey {
	if locked, is := errors.AsType[*ssh.PassphraseMissingError](parse); is && locked.PublicKey != nil {
		return locked.PublicKey
	}
	if public, _, _, _, err := ssh.ParseAuthorizedKey(text); err == nil {
		return public
	}
	if beside, err := os.ReadFile(path + ".pub"); err == nil {
		if public, _, _, _, err := ssh.ParseAuthorizedKey(beside); err == nil {
			return public
		}
	}
	return nil
}

func certificate(path string, signer ssh.Signer) ssh.Signer {
	text, err := os.ReadFile(path + "-cert.pub")
	if err != nil {
		return nil
	}
	public, _, _, _, err := ssh.ParseAuthorizedKey(text)
	if err != nil {
		return nil
	}
	cert, ok := public.(*ssh.Certificate)
	if !ok {
		return nil
	}
	if signer, err = ssh.NewCertSigner(cert, signer); err != nil {
		return nil
	}
	return signer
}

// unlock prompts for the passphrase of a key file, again if it was mistyped.
func (d *Dialer) unlock(ctx context.Context, path string, text []byte) (ssh.Signer, error) {
	w := wish{kindPassphrase, path}
	var wrong error
	for range 3 {
		prompt := "Passphrase of " + path
		if wrong != nil {
			prompt = "It does not open the key. " + prompt
		}
		passphrase, err := d.vault.secret(ctx, w, PassphraseEnv, prompt)
		if err != nil {
			return nil, fmt.Errorf("%s: passphrase: %w", path, errors.Join(wrong, err))
		}
		signer, err := ssh.ParsePrivateKeyWithPassphrase(text, []byte(passphrase))
		if err == nil {
			return signer, nil
		}
		wrong = errors.New("it does not open the key")
		d.vault.refuse(w, PassphraseEnv, wrong)
	}
	return nil, fmt.Errorf("%s: passphrase: %w", path, wrong)
}

// lockedKey is an encrypted key that is decrypted when a host accepts it.
type lockedKey struct {
	public ssh.PublicKey
	open   func() (ssh.Signer, error)
}

func (k *lockedKey) PublicKey() ssh.PublicKey { return k.public }

func (k *lockedKey) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return k.SignWithAlgorithm(rand, data, "")
}

func (k *lockedKey) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	signer, err := k.open()
	if err != nil {
		return nil, err
	}
	return signWith(signer, rand, data, algorithm)
}

func heldKey(held []key, public ssh.PublicKey) ssh.Signer {
	for _, k := range held {
		if sameKey(k.PublicKey(), public) {
			return k.Signer
		}
	}
	return nil
}

func sameKey(a, b ssh.PublicKey) bool { return bytes.Equal(a.Marshal(), b.Marshal()) }

// agents are the SSH agents that hosts use; usually one.
type agents struct {
	mu   sync.Mutex
	open map[string]agentConn
}

type agentConn struct {
	io.Closer
	agent.ExtendedAgent
	deadline func(time.Time) error
}

// keys returns the keys of the agent at a path, "" for the default; none if it does not
// answer, like ssh.
func (a *agents) keys(path string) []key {
	a.mu.Lock()
	defer a.mu.Unlock()
	conn, ok := a.open[path]
	if !ok {
		var err error
		if conn, err = dialAgent(path); err != nil {
			return nil
		}
		if a.open == nil {
			a.open = map[string]agentConn{}
		}
		a.open[path] = conn
	}
	// A hanging agent must not hang us; before it signs, it may prompt a person.
	if err := conn.deadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil
	}
	signers, err := conn.Signers()
	if err != nil || conn.deadline(time.Time{}) != nil {
		conn.Close()
		delete(a.open, path)
		return nil
	}
	comments := map[string]string{}
	if list, err := conn.List(); err == nil {
		for _, k := range list {
			comments[string(k.Blob)] = k.Comment
		}
	}
	var all []key
	for _, s := range signers {
		all = append(all, key{Signer: s, from: strings.TrimSpace("agent " + comments[string(s.PublicKey().Marshal())])})
	}
	return all
}

func dialAgent(path string) (agentConn, error) {
	if path == "" && runtime.GOOS == "windows" {
		f, err := os.OpenFile(`\\.\pipe\openssh-ssh-agent`, os.O_RDWR, 0)
		if err != nil {
			return agentConn{}, err
		}
		return agentConn{f, agent.NewClient(f), func(time.Time) error { return nil }}, nil
	}
	if path == "" {
		return agentConn{}, errors.New("no agent")
	}
	conn, err := net.DialTimeout("unix", path, 5*time.Second)
	if err != nil {
		return agentConn{}, err
	}
	return agentConn{conn, agent.NewClient(conn), conn.SetDeadline}, nil
}

func (a *agents) close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	var errs []error
	for _, conn := range a.open {
		errs = append(errs, conn.Close())
	}
	a.open = nil
	return errors.Join(errs...)
}
