// Package batch does what every front end needs for a batch of items: it finds the filter,
// determines how long new items are remembered, hashes the items, asks the store which of them
// are new, and counts. HTTP calls it; other protocols should call it too.
//
// It reads no request and writes no answer, and knows nothing of tokens.
package batch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

// Op is what is done with the items of a batch.
type Op uint8

const (
	Add     Op = iota // new items are remembered
	Check             // nothing is remembered
	Forget            // seen items are new again
	Reserve           // new items are given to the caller for a while
	Commit            // items of a reservation are remembered
	Release           // items of a reservation are new again

	// For documents, see Judge.Near; only Observe receives these.
	Near // documents are compared and remembered
	Look // documents are compared
)

// Judge judges batches against the filters of an engine. It is safe for concurrent use.
type Judge struct {
	Engine *engine.Engine
	// Observe is called for each batch that the store was asked about, with the time that this
	// took and, if err is nil, with what became of the items.
	Observe func(op Op, f *engine.Filter, took time.Duration, n Counts, err error)
}

// Counts is what became of the items of a batch. An operation leaves 0 what it has nothing to do with.
type Counts struct {
	All                            int
	New                            int // Add, Check, Reserve, Near, Look
	Held                           int // Reserve: reserved by others
	Forgotten, Committed, Released int
	Lost                           int // Commit, Release
}

// Expire is how long a call wants its new items to be remembered.
type Expire struct {
	Seconds float64
	Given   bool // false: the call says nothing
}

// ItemBytes is what an item takes beside the body: where it is, its hash, and whether it is new.
const ItemBytes = 8 + 16 + 1

// Batch has the batches of one call to one filter, one after another. A Batch that is reused
// allocates nothing for batches of the same size. It is not safe for concurrent use.
type Batch struct {
	Filter *engine.Filter
	// IsNew tells for each item of the last batch whether it is new; of equal items only the
	// first is. It is nil after Forget, Commit and Release.
	IsNew []bool
	// IsLost tells after Commit and Release for each item whether it is lost; otherwise it is nil.
	IsLost []bool
	Counts
	// Terms are those of Reserve, Commit and Release, set before Begin.
	Terms Terms
	// Over is, after a batch, the false-positive ratio of a filter that holds more items than
	// it was made for; 0: it does not.
	Over float64

	op     Op
	expire time.Duration // of the items that are new; 0: that of the filter
	keys   []bloom.Hash
	marks  []bool // IsNew or IsLost
	uris   canonical.Canonicalizer
	uri    []byte
}

// ExpireError is returned for an expiry that a filter's items cannot have.
type ExpireError struct {
	Reason ExpireReason
	Msg    string
}

// ExpireReason is what is wrong with an expiry.
type ExpireReason uint8

const (
	ExpireNotSupported ExpireReason = iota // items of the filter's kind do not expire
	ExpireMissing                          // neither filter nor call says when
	ExpireInvalid                          // items cannot have it
)

func (e *ExpireError) Error() string { return e.Msg }

// DroppedError is returned for a filter that was dropped, and re-created, during a call.
type DroppedError struct{ Filter string }

func (e *DroppedError) Error() string {
	return fmt.Sprintf("filter %s was dropped while the request ran", e.Filter)
}

// Begin prepares b for the batches of a call to the filter ref, a name or an id in decimal. It
// returns the errors of Engine.Find and Filter.TakesItems, an *ExpireError, for Forget the
// error of Filter.Forgetful, and for Reserve, Commit and Release that of Filter.Reserving, a
// *LeaseError, or an error that wraps engine.ErrNoReservation.
func (j *Judge) Begin(ctx context.Context, b *Batch, op Op, ref string, expire Expire) (err error) {
	terms := b.Terms
	b.End()
	b.op, b.Terms = op, terms
	if b.Filter, err = j.Engine.Find(ctx, ref); err != nil {
		return err
	}
	if err := b.Filter.TakesItems(); err != nil {
		return err
	}
	switch op {
	case Forget:
		_, err = b.Filter.Forgetful()
	case Reserve, Commit, Release:
		err = b.Terms.settle(op, b.Filter)
	}
	if err != nil {
		return err
	}
	b.expire, err = expiry(b.Filter, expire, op)
	return err
}

// End releases the filter; only the buffers stay.
func (b *Batch) End() {
	*b = Batch{keys: b.keys[:0], marks: b.marks[:0], uris: b.uris, uri: b.uri[:0]}
}

// expiry determines how long new items will be seen. It returns 0 if that is up to the filter,
// or if the filter's kind forgets nothing. A call that remembers nothing needs no expiry, but
// gets an error for an invalid one.
func expiry(f *engine.Filter, asked Expire, op Op) (time.Duration, error) {
	_, timed := f.Set.(engine.Timed)
	switch {
	case !timed && asked.Given:
		return 0, &ExpireError{ExpireNotSupported, "filter " + f.Name + " is of the kind " + f.Kind}
	case timed && asked.Given:
		expire, err := engine.Expire(asked.Seconds)
		if err != nil {
			return 0, &ExpireError{ExpireInvalid, err.Error()}
		}
		return expire, nil
	case timed && (op == Add || op == Commit) && f.Expire() == 0:
		return 0, &ExpireError{ExpireMissing, "filter " + f.Name + " was made without one"}
	}
	return 0, nil
}

// Resume is for calls of many batches, before each batch but the first: it finds the filter as it
// is now, since the filter may have been cleared. If the filter was dropped meanwhile, Resume
// returns the error of Engine.Lookup or a *DroppedError.
func (j *Judge) Resume(b *Batch) error {
	now, err := j.Engine.Lookup(b.Filter.Name)
	switch {
	case err != nil:
		return err
	case now.Life() != b.Filter.Life():
		return &DroppedError{b.Filter.Name}
	}
	b.Filter = now
	return nil
}

// Apply carries out the operation of b with a list of items, and leaves in b what became of them.
// Reserve, Commit and Release do what engine.Reserving says. If the filter is cleared meanwhile,
// Apply uses the cleared filter, whose keys are different. It returns the errors of the engine's
// Set. If the filter was dropped meanwhile, it returns the error of Engine.Lookup or a *DroppedError.
func (j *Judge) Apply(ctx context.Context, b *Batch, l *items.List) error {
	n := l.Len()
	b.marks = slices.Grow(b.marks[:0], n)[:n]
	b.IsNew, b.IsLost = nil, nil
	switch b.op {
	case Forget:
	case Commit, Release:
		b.IsLost = b.marks
	default:
		b.IsNew = b.marks
	}
	return j.followCleared(ctx, b.Filter, func(f *engine.Filter) error {
		b.hash(l, f)
		if err := j.applyTo(ctx, b, f); err != nil {
			return err
		}
		added := 0
		if b.op == Add {
			added = b.New
		}
		b.Over, _ = f.OverCapacity(added)
		return nil
	})
}

// followCleared calls do with a filter, and with the one that takes its place if it is cleared
// meanwhile. It returns the error of do. If the filter was dropped meanwhile, it returns the
// error of Engine.Lookup or Engine.Successor, or a *DroppedError.
func (j *Judge) followCleared(ctx context.Context, f *engine.Filter, do func(*engine.Filter) error) error {
	for {
		err := do(f)
		if err == nil {
			return nil
		}
		now, lookup := j.Engine.Lookup(f.Name)
		if now == f && errors.As(err, new(*engine.UnknownFilterError)) {
			now, lookup = j.Engine.Successor(ctx, f)
		}
		switch {
		case now == f:
			return err
		case lookup != nil:
			return lookup
		case now.Life() != f.Life():
			return &DroppedError{f.Name}
		case !errors.As(err, new(*engine.UnknownFilterError)):
			return err
		}
		f = now
	}
}

func (j *Judge) applyTo(ctx context.Context, b *Batch, f *engine.Filter) (err error) {
	work, err := f.Begin(ctx, len(b.keys))
	if err != nil {
		return err
	}
	defer f.End(work)
	start := time.Now()
	b.Counts = Counts{All: len(b.keys)}
	switch b.op {
	case Forget:
		set, lacks := f.Forgetful()
		if lacks != nil {
			return lacks
		}
		b.Forgotten, err = set.Forget(ctx, b.keys)
	case Check:
		err = f.Has(ctx, b.keys, b.IsNew)
		for _, is := range b.IsNew {
			if is {
				b.New++
			}
		}
	case Reserve:
		err = b.reserve(ctx, f)
	case Commit, Release:
		err = b.settle(ctx, f)
	default:
		b.New, err = f.Add(ctx, b.keys, b.expire, b.IsNew)
	}
	j.Observe(b.op, f, time.Since(start), b.Counts, err)
	return err
}

// hash leaves the keys of l's items in b.keys. It hashes URIs in the filter's canonical form.
// It hashes a few items at a time and then prefetches them, so that what the store will look at
// is loaded from memory while the next items are hashed.
func (b *Batch) hash(l *items.List, f *engine.Filter) {
	n, seed := l.Len(), f.Seed()
	var ahead bloom.Prefetcher
	if set, ok := f.Set.(engine.Prefetching); ok && n <= bloom.MaxAhead {
		ahead = set.Prefetcher()
	}
	plain := f.URIs().Form == canonical.None
	b.keys = slices.Grow(b.keys[:0], n)
	if set, ok := f.Set.(engine.Hashing); ok {
		b.hashBy(set, l, f.URIs())
		return
	}
	for from := 0; from < n; from += bloom.Ahead {
		to := min(from+bloom.Ahead, n)
		if plain {
			b.keys = l.Keys(b.keys, seed, from, to)
		} else {
			b.hashCanonical(l, f.URIs(), seed, from, to)
		}
		ahead.Prefetch(b.keys[from:to])
	}
}

// hashCanonical appends the keys of the items in [from, to).
func (b *Batch) hashCanonical(l *items.List, by canonical.Rule, seed uint64, from, to int) {
	for i := from; i < to; i++ {
		if !l.IsString(i) {
			b.keys = append(b.keys, bloom.SumValue(seed, l.Bytes(i)))
			continue
		}
		b.uri = b.uris.Append(b.uri[:0], l.Bytes(i), by)
		b.keys = append(b.keys, bloom.Sum(seed, b.uri))
	}
}

// notString begins what is hashed of a value that is no string: it begins no string in UTF-8.
const notString = 0xff

// hashBy appends the keys of all items as a set hashes them.
func (b *Batch) hashBy(set engine.Hashing, l *items.List, by canonical.Rule) {
	for i := range l.Len() {
		item := l.Bytes(i)
		switch {
		case !l.IsString(i):
			b.uri = append(append(b.uri[:0], notString), item...)
			item = b.uri
		case by.Form != canonical.None:
			b.uri = b.uris.Append(b.uri[:0], item, by)
			item = b.uri
		}
		b.keys = append(b.keys, set.Hash(item))
	}
}
