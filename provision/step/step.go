// Package step defines the form of everything that the toolkit does to a host: look first,
// then change only what differs. The same steps make a plan and a deployment, so that
// the two cannot disagree. Package fleet runs steps on many hosts.
package step

import (
	"context"
	"fmt"
	"strings"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Step is one thing that should be so on a host. It is a [Wish] or a [Proof], and its
// methods are called by one goroutine at a time.
type Step interface {
	// Title is short, lower case and without the host: "redis: package".
	Title() string
}

// Wish is a step that changes what differs.
type Wish interface {
	Step
	// Look compares the host with the wish without changing anything. A plan calls it
	// too, even on a host where earlier steps have not been applied (a package or a user
	// that does not exist yet). It returns nil and no error if the host is as wished. It is
	// called again after the change was applied and must then return nil, unless that
	// change is an act.
	Look(ctx context.Context, h host.Host) (*Change, error)
}

// Undoer is a wish that can be taken back.
type Undoer interface {
	Wish
	// Undo is called when this step or a later one of the same host fails after Apply of
	// this step's change was begun. Steps are undone in reverse order, with a context that has
	// not ended. Undo restores what was there before. Its first result says what it did, for
	// people; "": nothing, because it has been restored already, or must stay.
	Undo(ctx context.Context, h host.Host, cause error) (string, error)
}

// Proof is a step that checks the result of the steps before it and changes nothing that
// lasts: a health check. A plan leaves it out when changes are pending before it.
type Proof interface {
	Step
	Prove(ctx context.Context, h host.Host) error
}

// Change is what a host lacks. It is not altered once Look has returned it.
type Change struct {
	// Summary is one line for people: "install redis-server", "write /etc/cron.d/urifilter".
	Summary string
	// Diff shows text that will change, as `diff -u` does, with secrets masked. "" where
	// there is no text.
	Diff string
	// Apply makes the change. It may be called again after it failed halfway.
	Apply func(ctx context.Context) error
	// Act means that Apply does something, such as a requested restart, rather than bring about
	// a state: Look returns a Change each time, and is not called again.
	Act bool
}

// Applied returns the change with another Apply, for a step that wraps another one.
func (c *Change) Applied(apply func(ctx context.Context) error) *Change {
	with := *c
	with.Apply = apply
	return &with
}

// NewWish returns the wish whose Look is a function.
func NewWish(title string, look func(ctx context.Context, h host.Host) (*Change, error)) Wish {
	return wish{Named(title), look}
}

// NewUndoer returns the wish whose Look is a function that also says how its change is undone: Undo of the wish
// does so for the last change that was begun.
func NewUndoer(title string, look func(ctx context.Context, h host.Host) (*Change, Undo, error)) Undoer {
	return &undoer{Named: Named(title), look: look}
}

// Undo takes back a change, as Undo of an Undoer does.
type Undo func(ctx context.Context, h host.Host) (string, error)

// NewProof returns the proof whose Prove is a function.
func NewProof(title string, prove func(ctx context.Context, h host.Host) error) Proof {
	return proof{Named(title), prove}
}

// Named gives the types that embed it a title.
type Named string

// Title returns the name.
func (n Named) Title() string { return string(n) }

type wish struct {
	Named
	look func(ctx context.Context, h host.Host) (*Change, error)
}

func (w wish) Look(ctx context.Context, h host.Host) (*Change, error) { return w.look(ctx, h) }

type undoer struct {
	Named
	look func(ctx context.Context, h host.Host) (*Change, Undo, error)
	undo Undo // nil: no change was begun
}

func (u *undoer) Look(ctx context.Context, h host.Host) (*Change, error) {
	change, undo, err := u.look(ctx, h)
	if err != nil || change == nil {
		return nil, err
	}
	return change.Applied(func(ctx context.Context) error {
		u.undo = undo
		return change.Apply(ctx)
	}), nil
}

func (u *undoer) Undo(ctx context.Context, h host.Host, _ error) (string, error) {
	if u.undo == nil {
		return "", nil
	}
	return u.undo(ctx, h)
}

type proof struct {
	Named
	prove func(ctx context.Context, h host.Host) error
}

func (p proof) Prove(ctx context.Context, h host.Host) error { return p.prove(ctx, h) }

// Early marks steps that may also look at the host, or prove, before their turn, at the same time as others
// of the same call: all that happens then is that the host is asked. They must not read what others of them keep
// from their own looks. A runner may use that to ask a distant host for many things at once; see [Glances].
func Early(steps ...Step) []Step {
	all, group := make([]Step, len(steps)), new(group)
	for i, s := range steps {
		if marked, is := s.(early); is {
			s = marked.unmarked()
		}
		switch s := s.(type) {
		case Undoer:
			all[i] = earlyUndoer{s, group}
		case Wish:
			all[i] = earlyWish{s, group}
		case Proof:
			all[i] = earlyProof{s, group}
		default:
			all[i] = s
		}
	}
	return all
}

// Quiet is a wish with something to do in its turn besides looking: taking notes of what another one finds, for
// example. Quiet returns what only looks.
type Quiet interface {
	Wish
	Quiet() Wish
}

// Glances returns functions that ask the host for what the first of some steps will ask, those that one call of
// [Early] has marked.
func Glances(steps []Step) (asks []func(ctx context.Context, h host.Host) error) {
	for _, s := range steps {
		marked, is := s.(early)
		if !is || marked.of() != steps[0].(early).of() {
			break
		}
		asks = append(asks, glance(marked.unmarked()))
	}
	return asks
}

func glance(s Step) func(ctx context.Context, h host.Host) error {
	switch s := s.(type) {
	case Quiet:
		return glance(s.Quiet())
	case Wish:
		return func(ctx context.Context, h host.Host) error {
			_, err := s.Look(ctx, h)
			return err
		}
	}
	return s.(Proof).Prove
}

// group is that of the steps of one call of Early; it has a size, so that no two are equal.
type group struct{ _ byte }

// early is a step that is marked.
type early interface {
	of() *group
	unmarked() Step
}

type earlyWish struct {
	Wish
	group *group
}

func (e earlyWish) of() *group     { return e.group }
func (e earlyWish) unmarked() Step { return e.Wish }

type earlyUndoer struct {
	Undoer
	group *group
}

func (e earlyUndoer) of() *group     { return e.group }
func (e earlyUndoer) unmarked() Step { return e.Undoer }

type earlyProof struct {
	Proof
	group *group
}

func (e earlyProof) of() *group     { return e.group }
func (e earlyProof) unmarked() Step { return e.Proof }

// Running is the wish that a service of systemd, named without its suffix, is enabled and runs. differs says why one
// that runs must be restarted, "" if it need not be; nil: nothing is a reason. act carries out one verb of systemctl.
func Running(title, unit string, differs func(ctx context.Context, h host.Host) (string, error), act func(ctx context.Context, h host.Host, verb string) error) Wish {
	return NewWish(title, func(ctx context.Context, h host.Host) (*Change, error) {
		u, err := host.LookAtUnit(ctx, h, unit+".service")
		if err != nil {
			return nil, err
		}
		var verbs []string
		why := ""
		if !u.Enabled {
			verbs = append(verbs, "enable")
		}
		switch {
		case !u.Active:
			verbs = append(verbs, "start")
		case differs != nil:
			if why, err = differs(ctx, h); err != nil {
				return nil, err
			}
			if why != "" {
				verbs, why = append(verbs, "restart"), ": "+why
			}
		}
		if len(verbs) == 0 {
			return nil, nil
		}
		return &Change{Summary: strings.Join(verbs, " and ") + " " + unit + why, Apply: func(ctx context.Context) error {
			for _, verb := range verbs {
				if err := act(ctx, h, verb); err != nil {
					return err
				}
			}
			return nil
		}}, nil
	})
}

// Voice receives what steps tell people while they run. Warnings are shown again at the
// end of the run.
type Voice func(text string, warning bool)

type voiceKey struct{}

// WithVoice gives the steps that run under the context a voice.
func WithVoice(ctx context.Context, v Voice) context.Context {
	return context.WithValue(ctx, voiceKey{}, v)
}

// Say tells people how far a step is: "apt: waiting for the lock that unattended-upgr
// holds". Without a voice the message is discarded.
func Say(ctx context.Context, format string, args ...any) { say(ctx, false, format, args...) }

// Warn tells people about something that they should see to but that stops nothing.
func Warn(ctx context.Context, format string, args ...any) { say(ctx, true, format, args...) }

func say(ctx context.Context, warning bool, format string, args ...any) {
	if v, ok := ctx.Value(voiceKey{}).(Voice); ok && v != nil {
		v(fmt.Sprintf(format, args...), warning)
	}
}
