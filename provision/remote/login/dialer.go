// Package login connects and logs in to a host by SSH: it resolves what the
// inventory and ssh_config say, goes through bastions, checks host keys, tries keys,
// agents and passwords, and keeps the connection alive. Package remote runs commands on
// the host.
package login

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// The default variables for secrets, which the inventory may override, and the one that
// names an ssh_config.
const (
	PasswordEnv        = "URIFILTER_SSH_PASSWORD"
	SudoPasswordEnv    = "URIFILTER_SUDO_PASSWORD"
	PassphraseEnv      = "URIFILTER_KEY_PASSPHRASE"
	BastionPasswordEnv = "URIFILTER_BASTION_PASSWORD"
	ConfigEnv          = "URIFILTER_SSH_CONFIG"
)

// Options of a Dialer.
type Options struct {
	// Ask prompts a person for a secret; nil: nobody can be prompted, as in a script. Calls do
	// not overlap. Terminal returns such a function.
	Ask func(ctx context.Context, prompt string) (string, error)
	// Say is called with messages for people: "remembered the key SHA256:... of web1".
	// It may be nil.
	Say func(host, text string)
	// Secret is called with each password and passphrase as it becomes known, so that it can be
	// kept out of logs. It may be nil.
	Secret func(text string)

	// Timeout bounds how long a host may be silent during connecting. 0: 15 s.
	Timeout time.Duration
	// KeepAlive is the interval of keepalives on an open connection; after three
	// without an answer the connection counts as lost. 0: 10 s.
	KeepAlive time.Duration
	// Dials bounds concurrent connection attempts: sshd drops bursts. 0: 8.
	Dials int

	// Retry is the backoff before a dropped connection is tried again, doubled each time. 0:
	// 200 ms.
	Retry time.Duration
	// Home is the user's home folder, ConfigFile replaces ~/.ssh/config ("none":
	// no file), Getenv replaces os.Getenv. "" and nil: those of this user.
	Home       string
	ConfigFile string
	Getenv     func(string) string
}

// Dialer opens connections. It keeps the state of a whole run: it prompts for each secret
// once, does not retry a refused secret, and logs in to each bastion once.
// It is safe for concurrent use.
type Dialer struct {
	o       Options
	user    string // of this machine
	vault   *vault
	agents  agents
	slots   chan struct{}
	known   sync.Mutex // held while a known_hosts file is written to
	config  func() (*sshConfig, error)
	mu      sync.Mutex
	hops    map[string]*hop
	closing bool
}

// New returns a Dialer. Close closes the connections that it has opened for itself.
func New(o Options) *Dialer {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	if o.Say == nil {
		o.Say = func(string, string) {}
	}
	o.Timeout = cmp.Or(o.Timeout, 15*time.Second)
	o.KeepAlive = cmp.Or(o.KeepAlive, 10*time.Second)
	o.Retry = cmp.Or(o.Retry, 200*time.Millisecond)
	o.Dials = cmp.Or(o.Dials, 8)
	if o.Home == "" {
		o.Home, _ = os.UserHomeDir() // without one there are no files to be read
	}
	o.ConfigFile = cmp.Or(o.ConfigFile, o.Getenv(ConfigEnv))
	d := &Dialer{o: o, user: localUser(o.Getenv), vault: newVault(o), slots: make(chan struct{}, o.Dials), hops: map[string]*hop{}}
	d.config = sync.OnceValues(func() (*sshConfig, error) { return readConfig(o.ConfigFile, o.Home) })
	return d
}

// Close closes the connections to bastions and agents. Connections to hosts behind a bastion
// end with it.
func (d *Dialer) Close() error {
	d.mu.Lock()
	d.closing = true
	hops := d.hops
	d.hops = map[string]*hop{}
	d.mu.Unlock()
	for _, h := range hops {
		h.close()
	}
	return d.agents.close()
}

// Told adds the host's name to an error: a *host.ConnectionError if the connection
// failed. It returns nil for nil.
func Told(ctx context.Context, name string, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, new(*host.ConnectionError)):
		return err
	case errors.As(err, new(*Fault)):
		return &host.ConnectionError{Host: name, Err: err}
	}
	return fmt.Errorf("host %s: %w", name, err)
}

// SudoPassword returns the password of the login for sudo on a host, from the environment or a
// prompt. It prompts once per run; after RefuseSudoPassword it returns an error. The error is
// ErrNobody if nobody can be prompted.
func (d *Dialer) SudoPassword(ctx context.Context, t Target, host string) (string, error) {
	return d.vault.secret(ctx, sudoWish(t, host), t.sudoEnv, fmt.Sprintf("Password of %s for sudo on %s", t.user, host))
}

// RefuseSudoPassword notes that sudo refused the password: trying it again could lock the user out.
func (d *Dialer) RefuseSudoPassword(t Target, host string) {
	d.vault.refuse(sudoWish(t, host), t.sudoEnv, errors.New("it was refused, and is not tried again"))
}

func sudoWish(t Target, host string) wish { return wish{kindSudo, t.user + "@" + host} }

func localUser(getenv func(string) string) string {
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	for _, variable := range []string{"USER", "USERNAME"} {
		if name == "" {
			name = getenv(variable)
		}
	}
	return name[strings.LastIndexByte(name, '\\')+1:] // on Windows a domain is before it
}
