package powerloss

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// texts lets a filter of documents be asked about keys, as the other filters are: a key stands for
// a document, and is seen if that document is found near its fingerprint.
type texts struct{ engine.Similar }

// byKeys returns a set that can be asked about keys.
func byKeys(set engine.Set) engine.Set {
	if similar, ok := set.(engine.Similar); ok {
		return texts{similar}
	}
	return set
}

// document returns the document of a key. IDs have many lengths, so that the journal stores them
// in one slot or in many.
func document(key bloom.Hash) engine.Document {
	id := fmt.Sprintf("%016x%016x", key.Hi, key.Lo)
	switch key.Hi % 32 {
	case 0:
		id += strings.Repeat("long", int(key.Lo%200))
	default:
		id += strings.Repeat("-", int(key.Lo%40))
	}
	return engine.Document{ID: id, Fingerprint: key.Lo}
}

func (t texts) Add(ctx context.Context, keys []bloom.Hash, fresh []bool) (int, error) {
	docs := make([]engine.Document, len(keys))
	for i, key := range keys {
		docs[i] = document(key)
	}
	found := make([]engine.Comparison, len(docs))
	if err := t.Near(ctx, docs, engine.Nearness{Distance: t.Distance(), Limit: 1, Remember: true}, found); err != nil {
		return 0, err
	}
	n := 0
	for i := range found {
		if fresh[i] = found[i].New; fresh[i] {
			n++
		}
	}
	return n, nil
}

func (t texts) Has(ctx context.Context, keys []bloom.Hash, fresh []bool) error {
	docs := make([]engine.Document, len(keys))
	for i, key := range keys {
		docs[i] = engine.Document{ID: "asked", Fingerprint: key.Lo ^ 1} // near, but not the same
	}
	found := make([]engine.Comparison, len(docs))
	if err := t.Near(ctx, docs, engine.Nearness{Distance: t.Distance(), Limit: engine.MaxNear}, found); err != nil {
		return err
	}
	for i, key := range keys {
		want := engine.Nearby{ID: document(key).ID, Distance: 1}
		fresh[i] = !slices.Contains(found[i].Near, want)
		if fresh[i] && len(found[i].Near) > 0 {
			return errors.New("an id is not whole: " + found[i].Near[0].ID)
		}
	}
	return nil
}
