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
