package archive

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Sink receives a bit-map. An engine.Set is one.
type Sink interface {
	Header() bloom.Header
	MergeStripe(ctx context.Context, i int, data []byte) error
	Commit(ctx context.Context) error
}

// Restore sets all bits of the version in sink and commits it. Stripes are checked as they
// arrive: on an error the bits of some are set, but not committed. Because bits are only ever
// added, it is safe to restore this or another version afterwards. An error that concerns the
// archive's bytes is a *DamageError. If sink is another bit-map, Restore returns a
// *MismatchError and sets no bit.
func (a *Archive) Restore(ctx context.Context, v Version, sink Sink, p Progress) error {
	if !sink.Header().SameBits(v.Header) {
		return a.named(&MismatchError{
			Filter: v.Spec.Name, Version: v.ID, Reason: differs(v.Header, sink.Header()),
			Hint: fmt.Sprintf("drop the filter first, then `urifilter bitmap restore --version %s %s`", v.ID, v.Spec.Name),
		})
	}
	err := a.read(ctx, &v, p, func(i int, data []byte, err error) error {
		if err != nil {
			return err
		}
		return sink.MergeStripe(ctx, i, data)
	})
	if err != nil {
		return a.named(a.removedOr(ctx, &v, err))
	}
	if !sink.Header().SameBits(v.Header) {
		return fmt.Errorf("filter %s: was emptied while it was restored\nhint: restore again", v.Spec.Name)
	}
	if err := sink.Commit(ctx); err != nil {
		return fmt.Errorf("filter %s: %w", v.Spec.Name, err)
	}
	return nil
}

// Verify reads the version as Restore does, only to check its checksums. It returns all damage
// as one joined error.
func (a *Archive) Verify(ctx context.Context, v Version, p Progress) error {
	var damage []error
	err := a.read(ctx, &v, p, func(_ int, _ []byte, err error) error {
		if errors.As(err, new(*DamageError)) {
			damage = append(damage, err)
			return nil
		}
		return err
	})
	return a.named(a.removedOr(ctx, &v, errors.Join(append(damage, err)...)))
}

// removedOr turns damage that was found in a version into ErrRemoved if the version no longer
// exists: its files were meant to go.
func (a *Archive) removedOr(ctx context.Context, v *Version, err error) error {
	if !errors.As(err, new(*DamageError)) {
		return err
	}
	ctx, cancel := a.bound(ctx, 1)
	defer cancel()
	look := a.versions.FindOne(ctx, bson.D{{Key: "_id", Value: v.ID}}).Err()
	if errors.Is(look, mongo.ErrNoDocuments) {
		return fmt.Errorf("filter %s: version %s: %w\nhint: a newer one exists; raise writeback.keep if this happens often", v.Spec.Name, v.ID, ErrRemoved)
	}
	return err
}

// fetched is a stripe, or the reason why there is none.
type fetched struct {
	i    int
	data []byte
	err  error
}

// read calls use for each stripe that has bits, in order, and fetches the next one meanwhile.
// If use receives a *DamageError, it may go on; with other errors it must not.
func (a *Archive) read(ctx context.Context, v *Version, p Progress, use func(i int, data []byte, err error) error) error {
	if len(v.stripes) != v.Header.Stripes() {
		return fmt.Errorf("version %s: not one that Latest or Versions returned", v.ID)
	}
	ctx, cancel := context.WithCancel(ctx)
	ready := make(chan fetched)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		defer close(ready)
		for i, s := range v.stripes {
			f := fetched{i: i}
			if !s.empty() {
				f.data, f.err = a.fetchOf(ctx, v, i)
			}
			select {
			case ready <- f:
			case <-ctx.Done():
				return
			}
		}
	}()
	for f := range ready {
		if f.data != nil || f.err != nil {
			if err := use(f.i, f.data, f.err); err != nil {
				return err
			}
		}
		if p != nil {
			p(f.i+1, len(v.stripes))
		}
	}
	return context.Cause(ctx)
}
