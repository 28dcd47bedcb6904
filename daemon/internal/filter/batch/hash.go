package batch

import (
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
)

// hash leaves the keys of l's items in b.keys. It hashes URIs in the filter's canonical form.
// It hashes a few items at a time and then prefetches them, so that what the store will look at
// is loaded from memory while the next items are hashed.
func (b *Batch) hash(l *items.List, f *engine.Filter) {
	n, seed := l.Len(), f.Seed()
	var ahead bloom.Prefetcher
	if set, ok := f.Set.(engine.Prefetching); ok && n <= bloom.MostAhead {
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
