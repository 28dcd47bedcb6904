package engine

import (
	"context"
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Archive keeps bit-maps beside the store, so that a lost store loses nothing that was
// written back. It is safe for concurrent use. Its errors mean that it could not be
// reached; the engine retries.
type Archive interface {
	// Newest lists the newest version of every filter that has one.
	Newest(ctx context.Context) ([]Archived, error)
	// LeaveTombstone adds an empty version with the header h, of a later generation than all
	// existing ones, so that no start restores what they have. dropped: the filter is gone, too; else
	// it was cleared. Durable on return.
	LeaveTombstone(ctx context.Context, spec Spec, h bloom.Header, dropped bool) error
}

// Archived is one version of a filter in the archive.
type Archived struct {
	Spec    Spec
	Header  bloom.Header
	Items   uint64 // estimate by bloom's formula, so fewer items mean fewer bits
	Created time.Time
	// Dropped: this is the tombstone of a filter that was dropped. A filter of its name that is made
	// again may begin with it.
	Dropped bool
	// Err is why this version, which is the newest, cannot be used; then only the name of Spec is known.
	// Nil: it can.
	Err error
	// Restore sets in into all bits of the version, and commits it. If the version turns out
	// to be damaged, some of its bits may have been set when Restore returns an error.
	Restore func(ctx context.Context, into Sink) error
	// SwitchOff takes the version out of use: the one before it is the newest again. Durable on return.
	SwitchOff func(ctx context.Context) error
}

// Sink takes the bits of an archived version. A BitMap is one.
type Sink interface {
	Header() bloom.Header
	MergeStripe(ctx context.Context, i int, data []byte) error
	Commit(ctx context.Context) error
}

// Filler is a Store that makes a filter with bits in it, atomically: whatever ends the
// process, Load never returns a filter that fill has not completely filled. An archive needs one.
type Filler interface {
	// CreateFilled is Store.Create for the bit-map that fill makes. It returns an error of
	// fill, and then leaves nothing of the filter.
	CreateFilled(ctx context.Context, spec Spec, h bloom.Header, fill func(context.Context, Sink) error) (Set, error)
}

// RestoringError is returned for a filter that waits for its restore from the archive. It is
// not served yet, since an empty one in its place would call old items new.
type RestoringError struct {
	Filter string
	Cause  error // why the archive cannot supply it at present; nil: it is being restored
}

func (e *RestoringError) Error() string {
	if e.Cause == nil {
		return fmt.Sprintf("filter %s: is being restored from the archive", e.Filter)
	}
	return fmt.Sprintf("filter %s: waits for the archive: %v", e.Filter, e.Cause)
}

func (e *RestoringError) Unwrap() error { return e.Cause }
