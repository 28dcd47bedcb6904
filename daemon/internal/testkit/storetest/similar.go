package storetest

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// withItems returns a set that accepts keys, so that the suite can run on sets that accept
// documents: a key becomes a document with a fingerprint that is a hash of it, and an id that
// no other document has. Because no two fingerprints of the suite are near each other, a
// document is new once.
func withItems(set engine.Set) engine.Set {
	if s, ok := set.(engine.Similar); ok {
		return documents{s}
	}
	return set
}

type documents struct{ engine.Similar }

var lastID atomic.Uint64

func (d documents) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (n int, err error) {
	err = d.near(ctx, keys, fresh, true)
	return count(fresh), err
}

func (d documents) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	return d.near(ctx, keys, fresh, false)
}

func (d documents) near(ctx context.Context, keys []bloom.Hash, fresh []bool, remember bool) error {
	docs := make([]engine.Document, len(keys))
	for i, key := range keys {
		docs[i] = engine.Document{ID: strconv.FormatUint(lastID.Add(1), 36), Fingerprint: bloom.Sum(0, fmt.Append(nil, key.Hi, key.Lo)).Lo}
	}
	found := make([]engine.Comparison, len(docs))
	err := d.Near(ctx, docs, engine.Nearness{Distance: d.Distance(), Limit: 1, Remember: remember}, found)
	for i, c := range found {
		fresh[i] = err == nil && c.New
	}
	return err
}
