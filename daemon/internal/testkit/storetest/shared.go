package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// FoundAtOnce has two daemons, which share a store and follow it, agree on which filters there are:
// what one has made the other one finds, and what one has dropped the other one does not serve.
// keptIn is the store of the filters, "" for the main one.
func FoundAtOnce(t *testing.T, one, two *engine.Engine, keptIn string) {
	t.Helper()
	ctx := context.Background()
	var unknown *engine.UnknownFilterError
	for i := range 5 {
		name := fmt.Sprintf("at-once-%d", i)
		if _, err := two.Find(ctx, name); !errors.As(err, &unknown) {
			t.Fatalf("before it is made: %v", err)
		}
		made, _, err := one.Create(ctx, engine.Spec{Name: name, Kind: "exact", Params: configs.Exact{Store: keptIn}})
		if err != nil {
			t.Fatal(err)
		}
		for _, ref := range []string{name, fmt.Sprint(made.ID)} {
			if f, err := two.Find(ctx, ref); err != nil || f.Spec != made.Spec {
				t.Fatalf("made by the other daemon: %q: %v", ref, err)
			}
		}
		if err := one.Drop(ctx, name); err != nil {
			t.Fatal(err)
		}
		f, err := two.Find(ctx, name)
		if err == nil {
			err = f.Has(ctx, make([]bloom.Hash, 1), make([]bool, 1))
		}
		if !errors.As(err, &unknown) {
			t.Fatalf("dropped by the other daemon: %v", err)
		}
	}
}
