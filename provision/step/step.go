// Package step is the form of everything that the toolkit does to a host: look first,
// then change only what differs. The same steps make a plan and a deployment, so that
// the two cannot disagree. What runs steps on many hosts is package fleet.
package step

import (
	"context"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Step is one thing that shall be so on a host. Exactly one of Look and Prove is given.
type Step struct {
	// Name is short, lower case and without the host: "redis: package".
	Name string
	// Look compares the host with the wish without changing anything, as a plan does
	// too: also on a host where steps before it have not been applied (a package that
	// is not there yet, a user that does not exist). Nil and no error: as wished. It is
	// asked again after Apply and must then return nil.
	Look func(ctx context.Context, h host.Host) (*Change, error)
	// Prove checks the result of the steps before it and changes nothing that lasts:
	// a health check. A plan leaves it out when changes are pending before it.
	Prove func(ctx context.Context, h host.Host) error
	// Always is set where Apply is an act rather than a state (a restart that was asked
	// for): Look returns a Change each time, and is not asked again.
	Always bool
	// Undo, when not nil, is called when this step or a later one of the same host
	// fails after Apply of this step was begun: in the opposite order, with a context
	// that has not ended. It brings back what was there before. Its first result tells
	// what it did, for people; "": nothing, as it has been brought back already, or is to
	// stay.
	Undo func(ctx context.Context, h host.Host, cause error) (string, error)
}

// Change is what a host lacks.
type Change struct {
	// Summary is one line for people: "install redis-server", "write /etc/cron.d/urifilter".
	Summary string
	// Diff shows text that will change, as `diff -u` does, with secrets masked. "" where
	// there is no text.
	Diff string
	// Apply makes it so. It may be called again after it has failed half way.
	Apply func(ctx context.Context) error
}
