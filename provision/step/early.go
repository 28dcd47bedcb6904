package step

import (
	"context"

	"github.com/cr-clawer/urifilter/provision/host"
)

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
