package step

import (
	"context"

	"github.com/cr-clawer/urifilter/provision/host"
)

// NewWish returns the wish whose Look is a function. A wish that keeps something from Look
// to Undo needs a type of its own.
func NewWish(title string, look func(ctx context.Context, h host.Host) (*Change, error)) Wish {
	return wish{Named(title), look}
}

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

type proof struct {
	Named
	prove func(ctx context.Context, h host.Host) error
}

func (p proof) Prove(ctx context.Context, h host.Host) error { return p.prove(ctx, h) }
