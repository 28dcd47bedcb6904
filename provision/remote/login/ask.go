package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"
)

// vault holds the secrets of a run. Each is read from the environment or else prompted
// for, once.
type vault struct {
	ask    func(ctx context.Context, prompt string) (string, error)
	getenv func(string) string
	learn  func(string)
	turn   chan struct{} // held while a person is asked, and for the fields below
	have   map[wish]string
	bad    map[wish]error
	last   map[string]lastAnswer // by kind
}

// wish identifies a secret by kind and owner.
type wish struct{ kind, of string }

type lastAnswer struct{ of, text string }

// The kinds of secrets.
const (
	kindLogin      = "login"
	kindSudo       = "sudo"
	kindPassphrase = "passphrase"
	kindOther      = "other"
)

func newVault(o Options) *vault {
	v := &vault{ask: o.Ask, getenv: o.Getenv, learn: o.Secret, turn: make(chan struct{}, 1), have: map[wish]string{}, bad: map[wish]error{}, last: map[string]lastAnswer{}}
	if v.learn == nil {
		v.learn = func(string) {}
	}
	return v
}

// ErrNobody means that a secret is in no variable and that nobody can be prompted.
var ErrNobody = errors.New("there is no terminal to ask for it")

// secret returns a secret: from an earlier call, from the variable, or from a
// prompt. A refused secret is not returned again.
func (v *vault) secret(ctx context.Context, w wish, variable, prompt string) (string, error) {
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	defer func() { <-v.turn }()
	if err := v.bad[w]; err != nil {
		return "", err
	}
	if text, ok := v.have[w]; ok {
		return text, nil
	}
	if text := v.getenv(variable); variable != "" && text != "" {
		v.learn(text)
		v.have[w] = text
		return text, nil
	}
	if v.ask == nil {
		return "", fmt.Errorf("%w; set %s", ErrNobody, variable)
	}
	// Fleets often share one password: do not prompt for each host.
	last, again := v.last[w.kind]
	if again {
		prompt += fmt.Sprintf(" (Enter alone: as for %s)", last.of)
	}
	text, err := v.ask(ctx, prompt+": ")
	if err != nil {
		return "", err
	}
	if text == "" && again {
		text = last.text
	}
	if text == "" {
		v.bad[w] = errors.New("none was given")
		return "", v.bad[w]
	}
	v.learn(text)
	v.have[w] = text
	if w.kind != kindOther {
		v.last[w.kind] = lastAnswer{w.of, text}
	}
	return text, nil
}

// refuse marks a secret as wrong. A passphrase may be prompted for again: it is tried
// on this machine, where nothing is locked out.
func (v *vault) refuse(w wish, variable string, err error) {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	text := v.have[w]
	delete(v.have, w)
	if v.last[w.kind].text == text {
		delete(v.last, w.kind)
	}
	if w.kind != kindPassphrase || v.ask == nil || v.getenv(variable) != "" {
		v.bad[w] = err
	}
}

// forget has the secret prompted for again.
func (v *vault) forget(w wish) {
	v.turn <- struct{}{}
	defer func() { <-v.turn }()
	delete(v.have, w)
	delete(v.bad, w)
}

// Terminal returns a function for Options.Ask that prompts on a terminal without echo,
// or nil if in is not a terminal.
func Terminal(in *os.File, out io.Writer) func(ctx context.Context, prompt string) (string, error) {
	fd := int(in.Fd())
	if !term.IsTerminal(fd) {
		return nil
	}
	return func(ctx context.Context, prompt string) (string, error) {
		before, err := term.GetState(fd)
		if err != nil {
			return "", err
		}
		fmt.Fprint(out, prompt)
		type answer struct {
			text []byte
			err  error
		}
		// A read from a terminal cannot be cancelled: after an interruption, which ends
		// the program soon, its goroutine leaks.
		answers := make(chan answer, 1)
		go func() {
			text, err := term.ReadPassword(fd)
			answers <- answer{text, err}
		}()
		select {
		case a := <-answers:
			fmt.Fprintln(out)
			return string(a.text), a.err
		case <-ctx.Done():
			fmt.Fprintln(out)
			return "", errors.Join(context.Cause(ctx), term.Restore(fd, before))
		}
	}
}
