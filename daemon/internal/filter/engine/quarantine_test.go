package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// A damaged filter does not prevent others from being served. Nothing takes its place, and it
// is neither written to the archive nor restored from it, until it is dropped: then it comes
// back from the archive.
func TestQuarantine(t *testing.T) {
	dir := t.TempDir()
	shelf := newShelf()
	if err := shelf.put(spec(1, "uri"), header(t, 7, 1), 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	settings := engine.Settings{Filters: []engine.Spec{spec(1, "uri"), spec(2, "ip")}, Archive: shelf}
	b := open(t, dir, settings)
	b.reconcile()
	b.close()
	damaged := filepath.Join(dir, "filters", "1-uri", "bitmap")
	if err := os.WriteFile(damaged, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}

	b = open(t, dir, settings)
	b.reconcile()
	var bad *engine.QuarantinedError
	for _, ref := range []string{"uri", "1"} {
		if _, err := b.Lookup(ref); !errors.As(err, &bad) || bad.Name != "uri" || bad.ID != 1 {
			t.Fatalf("%s: %v, want a QuarantinedError", ref, err)
		}
	}
	if _, err := b.Lookup("ip"); err != nil {
		t.Errorf("the other: %v", err)
	}
	if !strings.Contains(b.log.String(), "QUARANTINE") || !strings.Contains(b.log.String(), damaged) {
		t.Errorf("the log does not name it:\n%s", b.log)
	}
	ctx := t.Context()
	if _, _, err := b.Create(ctx, spec(1, "uri")); !errors.As(err, &bad) {
		t.Errorf("re-created: %v", err)
	}
	if _, _, err := b.Create(ctx, spec(1, "another")); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("its id: %v, want ErrConflict", err)
	}
	archived, _ := shelf.Newest(ctx)
	at := slices.IndexFunc(archived, func(a engine.Archived) bool { return a.Spec.Name == "uri" })
	if _, err := b.Restore(ctx, archived[at]); !errors.As(err, &bad) {
		t.Errorf("restored: %v", err)
	}
	if data, err := os.ReadFile(damaged); err != nil || string(data) != "nothing" {
		t.Errorf("its data were touched: %q, %v", data, err)
	}

	if err := b.Drop(ctx, "uri"); err != nil {
		t.Fatal(err)
	}
	if moved, _ := filepath.Glob(filepath.Join(dir, "quarantine", "1-uri-*", "bitmap")); len(moved) != 1 {
		t.Errorf("its data are not kept: %v", moved)
	}
	var unknown *engine.UnknownFilterError
	if _, err := b.Lookup("uri"); !errors.As(err, &unknown) || len(b.Quarantined()) != 0 {
		t.Errorf("after the drop: %v, %v", err, b.Quarantined())
	}
	f, _, err := b.Create(ctx, spec(1, "uri"))
	if err != nil {
		t.Fatal(err)
	}
	fresh := make([]bool, 3)
	if err := f.Has(ctx, keys([]uint64{1, 2, 3}), fresh); err != nil || slices.Contains(fresh, true) {
		t.Errorf("it did not come back from the archive: %v, %v", fresh, err)
	}
}
