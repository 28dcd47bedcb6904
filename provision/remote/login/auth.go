package login

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/crypto/ssh"
)

// Ways are the methods by which a login may be tried.
type Ways int

const (
	Anyway Ways = iota
	ByKey       // by keys alone
)

// login is one attempt to log in. It remembers what was tried, for the error.
type login struct {
	d        *Dialer
	t        Target
	patience *patience

	asked      bool     // the host accepts keys, and was offered ours
	tried      []string // keys
	signed     string   // the key that was signed with last
	local      error    // why keys or passwords could not be had
	passworded bool     // the password has been sent
}

func (l *login) methods(ctx context.Context, how Ways) []ssh.AuthMethod {
	// The library uses the first method of each kind only: all keys go into one.
	all := []ssh.AuthMethod{ssh.PublicKeysCallback(func() ([]ssh.Signer, error) { return l.keys(ctx) })}
	if how == ByKey {
		return all
	}
	return append(all,
		ssh.KeyboardInteractive(func(_, instruction string, questions []string, echos []bool) ([]string, error) {
			return l.answer(ctx, instruction, questions, echos)
		}),
		ssh.PasswordCallback(func() (string, error) { return l.password(ctx) }))
}

func (l *login) keys(ctx context.Context) ([]ssh.Signer, error) {
	var signers []ssh.Signer
	l.asked = true
	defer l.patience.pause()()
	found, err := l.d.keys(ctx, l.t)
	if err != nil {
		l.local = err
		return nil, err
	}
	for _, k := range found {
		signers = append(signers, &offered{k, l})
		l.tried = append(l.tried, k.from)
	}
	return signers, nil
}

// offered is a key that a host may ask to sign. It notes that, and allows
// time for typing a passphrase or answering the agent.
type offered struct {
	key
	l *login
}

func (o *offered) Sign(rand io.Reader, data []byte) (*ssh.Signature, error) {
	return o.SignWithAlgorithm(rand, data, "")
}

// SignWithAlgorithm lets RSA keys sign with algorithms that sshd still accepts.
func (o *offered) SignWithAlgorithm(rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	defer o.l.patience.pause()()
	signature, err := signWith(o.Signer, rand, data, algorithm)
	o.l.signed = cmp.Or(o.file, o.from)
	if err != nil {
		o.l.local = fmt.Errorf("%s: %w", o.from, err)
	}
	return signature, err
}

func signWith(s ssh.Signer, rand io.Reader, data []byte, algorithm string) (*ssh.Signature, error) {
	if a, ok := s.(ssh.AlgorithmSigner); ok && algorithm != "" {
		return a.SignWithAlgorithm(rand, data, algorithm)
	}
	return s.Sign(rand, data)
}

// password is prompted for once per run, and sent once.
func (l *login) password(ctx context.Context) (string, error) {
	if l.passworded {
		return "", errSent
	}
	defer l.patience.pause()()
	text, err := l.d.vault.secret(ctx, l.wish(), l.t.passwordEnv, fmt.Sprintf("Password of %s@%s", l.t.user, l.t.name))
	if err != nil {
		l.local = fmt.Errorf("password of %s: %w", l.t.user, err)
		return "", l.local
	}
	l.passworded = true
	return text, nil
}

var errSent = errors.New("the password was sent already")

func (l *login) wish() wish { return wish{kindLogin, l.t.user + "@" + l.t.name} }

// answer answers the questions of sshd. A question without echo is taken for the password,
// unless it asks for a code; a person answers the others.
func (l *login) answer(ctx context.Context, instruction string, questions []string, echos []bool) ([]string, error) {
	var answers []string
	for i, question := range questions {
		ask := l.promptFor
		if !echos[i] && !codeWord.MatchString(question) {
			ask = func(ctx context.Context, _ string) (string, error) { return l.password(ctx) }
		}
		text, err := ask(ctx, strings.TrimSpace(instruction+" "+question))
		if err != nil {
			return nil, err
		}
		answers = append(answers, text)
	}
	return answers, nil
}

var codeWord = regexp.MustCompile(`(?i)\b(code|otp|token|one-time|pin|passcode|factor|duo|yubikey)\b`)

func (l *login) promptFor(ctx context.Context, question string) (string, error) {
	defer l.patience.pause()()
	prompt := fmt.Sprintf("%s@%s: %s", l.t.user, l.t.name, strings.TrimRight(question, ": "))
	if l.d.o.Ask == nil {
		l.local = fmt.Errorf("it asks %q: %w", question, ErrNobody)
		return "", l.local
	}
	// The answer to the same question may differ next time: nothing is remembered.
	w := wish{kindOther, prompt}
	defer l.d.vault.forget(w)
	return l.d.vault.secret(ctx, w, "", prompt)
}

// fault returns why the login failed.
func (l *login) fault(err error) *Fault {
	f := &Fault{Kind: Auth, Target: l.t.String(), Err: err}
	var tried []string
	switch {
	case len(l.tried) > 0:
		tried = append(tried, "the keys of "+strings.Join(l.tried, ", "))
	case !l.asked:
		tried = append(tried, "no key, as the host accepts none (PubkeyAuthentication and AuthenticationMethods in its sshd_config)")
	case l.local != nil:
		tried = append(tried, "no key")
	default:
		tried = append(tried, "no key, as there is none")
	}
	if l.passworded {
		tried = append(tried, "the password")
		l.d.vault.refuse(l.wish(), l.t.passwordEnv, errors.New("it was refused, and is not tried again"))
	}
	f.Text = "login refused; tried: " + strings.Join(tried, ", and ")
	if l.local != nil {
		f.Text += "; " + l.local.Error()
	}
	f.Hint = fmt.Sprintf("`go tool mage ssh:setup -hosts=%s` puts a key of yours there; or name one in identity_file; or set %s", l.t.name, l.t.passwordEnv)
	switch {
	case !l.asked:
		f.Hint = fmt.Sprintf("let its sshd accept keys; or set %s", l.t.passwordEnv)
	case strings.Contains(err.Error(), "Too many authentication failures"):
		f.Text = fmt.Sprintf("hung up after too many keys that it does not know: %s", strings.Join(l.tried, ", "))
		f.Hint = "name the right one in identity_file of the inventory, or set IdentitiesOnly yes in ~/.ssh/config"
	case l.passworded && l.t.user == "root":
		f.Hint += "; sshd often takes no password of root (PermitRootLogin): log in as a user who may use sudo"
	}
	return f
}

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
	if err := errors.Join(pem.Encode(f, block), f.Sync(), f.Close()); err != nil {
		return nil, errors.Join(err, os.Remove(file)) // a part of a key would be in the way of the next one
	}
	key, err := ssh.NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	line := strings.TrimSpace(string(ssh.MarshalAuthorizedKey(key))) + " " + comment + "\n"
	d.o.Say("", fmt.Sprintf("made the key %s, %s, without a passphrase; ssh-keygen -p -f %s gives it one", file, ssh.FingerprintSHA256(key), QuoteArg(file)))
	return key, os.WriteFile(file+".pub", []byte(line), 0o644) //nolint:gosec // public
}
