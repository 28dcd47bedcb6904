package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// UnlikeError is returned for two filters that differ in what must be the same, or a filter that
// differs from a list of digests.
type UnlikeError struct{ Filter, Reason string }

func (e *UnlikeError) Error() string { return "filter " + e.Filter + ": " + e.Reason }

// otherSeed does not show the seeds, which are secret.
const otherSeed = "hashes items with another secret, so that the same item has another digest, and other bits; one that is made like the other can be merged with it"

// ErrListsNone: the digests cannot be listed.
var ErrListsNone = errors.New("has no digests that can be listed where it is kept")

// Digest is what a filter without a bit-map keeps of an item.
type Digest struct {
	Key  bloom.Hash
	Left time.Duration // how long it is seen from now on; 0: for ever
}

// DigestParts is into how many parts the digests of a filter are divided, by their first byte.
const DigestParts = 256

// PartDigests is how many digests a part of a filter with so many items has: as many as there are
// on average, and an eighth more, as they are spread evenly.
func PartDigests(items uint64) int { return int(items/DigestParts)*9/8 + 100 }

// Listed is a Set whose digests can be listed.
type Listed interface {
	Set
	// Digests appends those of part i, of DigestParts, that are seen. What is added or forgotten
	// meanwhile may be there or not.
	Digests(i int, dst []Digest) ([]Digest, error)
}

// Listed returns the filter's set as a Listed, or a *KindError.
func (f *Filter) Listed() (Listed, error) { return As[Listed](f.Spec, f.Set, ErrListsNone) }

// TakeDigests is Add for digests of a filter of the same kind and seed, for the time that each of
// them has left. It returns how many were new. After an error some of them may have been added.
// Times are rounded up to seconds, so that few batches are made of them.
func (f *Filter) TakeDigests(ctx context.Context, digests []Digest) (int, error) {
	batches := map[time.Duration][]bloom.Hash{}
	for _, d := range digests {
		left := (d.Left + time.Second - 1).Truncate(time.Second)
		batches[left] = append(batches[left], d.Key)
	}
	var mu sync.Mutex // guards the following
	all, errs := 0, []error(nil)
	var work sync.WaitGroup
	room := make(chan struct{}, 16) // batches that share the waits for the disk
	for left, keys := range batches {
		room <- struct{}{}
		work.Go(func() {
			defer func() { <-room }()
			n, err := f.Add(ctx, keys, left, make([]bool, len(keys)))
			mu.Lock()
			defer mu.Unlock()
			all, errs = all+n, append(errs, err)
		})
	}
	work.Wait()
	return all, errors.Join(errs...)
}

// TakenBytes is what TakeDigests has in memory for each digest: that, and its key by the time that
// is left.
const TakenBytes = 24 + 2*16

// Merge makes all items of a filter seen in another one, durable on return, and returns the latter.
// What is added to the first one meanwhile may be missing. Both must be bit-maps of one shape, or
// keep digests, and hash with one seed: else it returns a *UnlikeError or a *KindError, and nothing
// is changed. After any other error some of the items may be seen, and it can be repeated.
func (e *Engine) Merge(ctx context.Context, from, into string) (*Filter, error) {
	source, err := e.Find(ctx, from)
	if err != nil {
		return nil, err
	}
	target, err := e.Find(ctx, into)
	if err != nil {
		return nil, err
	}
	ctx, end, err := e.begin(ctx, target.Name)
	if err != nil {
		return nil, err
	}
	defer end()
	if target, err = e.Lookup(target.Name); err != nil {
		return nil, err
	}
	if source.Name == target.Name {
		return nil, &UnlikeError{Filter: target.Name, Reason: "is one filter, and cannot be merged with itself"}
	}
	if err := target.takesItemsOf(source.Spec, source.Seed()); err != nil {
		return nil, err
	}
	if from, ok := source.Set.(BitMap); ok {
		err = target.mergeBits(ctx, from)
	} else {
		err = target.mergeDigests(ctx, source)
	}
	if err != nil {
		return nil, fmt.Errorf("merge filter %s: %w", source.Name, err)
	}
	e.log.Info("filter merged", "filter", target.Name, "from", source.Name)
	return target, nil
}

// takesItemsOf returns a *UnlikeError unless f can have the items of a filter with the spec and the
// seed.
func (f *Filter) takesItemsOf(spec Spec, seed uint64) error {
	if err := f.sameItems(spec, seed); err != nil {
		return err
	}
	if f.DigestBits() > spec.DigestBits() {
		return &UnlikeError{Filter: f.Name, Reason: fmt.Sprintf("keeps %d bits of the hash of an item, and the other has only the first %d of them (digest); the other way round it can be done", f.DigestBits(), spec.DigestBits())}
	}
	return nil
}

// sameItems returns a *UnlikeError unless f is of the kind of a filter with the spec and the seed,
// and takes the same items for equal.
func (f *Filter) sameItems(spec Spec, seed uint64) error {
	reason := ""
	switch {
	case f.Kind != spec.Kind:
		reason = fmt.Sprintf("is of the kind %s, the other of the kind %s", f.Kind, spec.Kind)
	case f.Canonical() != spec.Canonical():
		reason = fmt.Sprintf("normalizes URIs in another way than the other (canonical, canonical_drop): %s", f.Differences(spec))
	case f.Seed() != seed:
		reason = otherSeed
	default:
		return nil
	}
	return &UnlikeError{Filter: f.Name, Reason: reason}
}

// TakesDigestsOf returns a *UnlikeError if f cannot take the digests of a filter with the spec and
// the seed, and a *KindError if it has none.
func (f *Filter) TakesDigestsOf(spec Spec, seed uint64) error {
	_, isMap := f.Set.(BitMap)
	_, own := f.Set.(Hashing)
	if isMap || own || f.TakesItems() != nil {
		return &KindError{Filter: f.Name, Kind: f.Kind, Lacks: ErrListsNone}
	}
	return f.takesItemsOf(spec, seed)
}

func (f *Filter) mergeDigests(ctx context.Context, source *Filter) error {
	list, err := source.Listed()
	if err != nil {
		return err
	}
	digests := make([]Digest, 0, PartDigests(source.Stats().Items))
	for i := range DigestParts {
		if digests, err = list.Digests(i, digests[:0]); err != nil {
			return err
		}
		if _, err := f.TakeDigests(ctx, digests); err != nil {
			return err
		}
	}
	return nil
}

// itemsOfBoth estimates how many different items two bit-maps of one shape have together.
func itemsOfBoth(ctx context.Context, a, b BitMap) (uint64, error) {
	first, second := make([]byte, bloom.StripeBytes), make([]byte, bloom.StripeBytes)
	var set uint64
	for i := range a.Header().Stripes() {
		one, err := a.Stripe(ctx, i, first)
		if err != nil {
			return 0, err
		}
		other, err := b.Stripe(ctx, i, second)
		if err != nil {
			return 0, err
		}
		for at := 0; at < len(one); at += 8 { // blocks have 64 bytes
			set += uint64(bits.OnesCount64(binary.NativeEndian.Uint64(one[at:]) | binary.NativeEndian.Uint64(other[at:])))
		}
	}
	return a.Header().Fill(set).Items, nil
}

func (f *Filter) mergeBits(ctx context.Context, from BitMap) error {
	into, err := f.BitMap()
	if err != nil {
		return err
	}
	have, more := into.Header(), from.Header()
	have.Generation = more.Generation // of two filters: both are what they are now
	grow := have.Layers > 0
	if grow && more.Layers > 0 && have.Version() != more.Version() {
		return &UnlikeError{Filter: f.Name, Reason: fmt.Sprintf("is a bit-map of format %d, the other one of format %d; one that is made like the other can be merged with it",
			have.Version(), more.Version())}
	}
	if !have.SameBits(more) || grow != (more.Layers > 0) {
		return &UnlikeError{Filter: f.Name, Reason: fmt.Sprintf("is a bit-map for %d items at an error rate of %g, the other for %d at %g; they must be made for the same, and both grow or both not",
			have.Capacity, have.ErrorRate, more.Capacity, more.ErrorRate)}
	}
	if f.bound.Rejects() {
		room, err := f.takeRoom(ctx, "other filter", from.Stats().Items, func() (uint64, error) { // they may have many in common
			both, err := itemsOfBoth(ctx, into, from)
			if err == nil && both > f.bound.Items { // whatever the batches under way add
				err = fmt.Errorf("filter %s: together they have about %d items, and on_full reject leaves room for %d: %w", f.Name, both, f.bound.Items, ErrFull)
			}
			return both - min(both, f.Stats().Items), err
		})
		if err != nil {
			return err
		}
		defer f.room.give(room)
	}
	least := more.Bytes()
	if set, ok := f.Set.(Weighed); ok { // a store elsewhere has less of it here
		least = min(least, set.MemoryFor(itemsMore(int(from.Stats().Items))))
	}
	if err := f.claimLeast(least); err != nil {
		return err
	}
	defer f.unclaimLeast()
	buf := make([]byte, bloom.StripeBytes)
	for i := range more.Stripes() {
		stripe, err := from.Stripe(ctx, i, buf)
		if err == nil {
			err = into.MergeStripe(ctx, i, stripe)
		}
		if err != nil {
			return err
		}
	}
	return into.Commit(ctx)
}
