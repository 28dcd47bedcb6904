package batch_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// Items are hashed several at a time. Their keys are the same, and in the same order, as if each
// were hashed alone, for lists of any length and filters of any kind.
func TestEveryItemIsHashed(t *testing.T) {
	j, _ := open(t)
	for _, spec := range []engine.Spec{
		uri, news,
		{ID: 4, Name: "growing", Kind: "bloom", Params: configs.Bloom{Capacity: 2000, ErrorRate: 1e-4, OnFull: "grow"}},
		{ID: 5, Name: "safe", Kind: "bloom", Params: configs.Bloom{Capacity: 100_000, ErrorRate: 1e-4, OnFull: "warn", Canonical: configs.Canonical{Canonical: configs.CanonicalSafe}}},
	} {
		if spec.ID > 3 {
			if _, _, err := j.Engine.Create(t.Context(), spec); err != nil {
				t.Fatal(err)
			}
		}
		next := 0
		for _, n := range []int{1, bloom.Ahead - 1, bloom.Ahead, bloom.Ahead + 1, 1000, bloom.MaxAhead + 1} {
			var texts []string
			for range n {
				next++
				texts = append(texts, fmt.Sprintf("https://example.com/%d", next))
			}
			judged(t, j, batch.Add, spec.Name, batch.Expire{}, texts...)
			f, err := j.Engine.Lookup(spec.Name)
			if err != nil {
				t.Fatal(err)
			}
			var keys []bloom.Hash
			for _, text := range texts {
				keys = append(keys, bloom.Sum(f.Seed(), []byte(text)))
			}
			fresh := make([]bool, n)
			if err := f.Set.Has(t.Context(), keys, fresh); err != nil {
				t.Fatal(err)
			}
			if i := slices.Index(fresh, true); i >= 0 {
				t.Errorf("%s, %d items: item %d is not what is remembered", spec.Name, n, i)
			}
		}
	}
}
