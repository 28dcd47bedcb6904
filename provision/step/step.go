// Package step defines the form of everything that the toolkit does to a host: look first,
// then change only what differs. The same steps make a plan and a deployment, so that
// the two cannot disagree. Package fleet runs steps on many hosts.
package step

import (
	"context"

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
