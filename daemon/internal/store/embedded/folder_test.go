package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// failing is a hook that makes the operation of a label fail while that label is set.
type failing struct {
	label atomic.Pointer[string]
	after bool
}

func (f *failing) set(label string) { f.label.Store(&label) }

func (f *failing) hook(label, _ string) disk.Fault {
	switch want := f.label.Load(); {
	case want == nil || *want != label:
		return disk.Fault{}
	case f.after:
		return disk.Fault{After: syscall.EIO}
	default:
		return disk.Fault{Before: syscall.EIO}
	}
}

// A filter that could not be created does not block the next attempt.
func TestCreateAfterAFailure(t *testing.T) {
	for _, label := range []string{"filter-mkdir", "spec-sync", "bitmap-rename", "filter-rename", "filter-syncdir"} {
		for _, after := range []bool{false, true} {
			t.Run(label, func(t *testing.T) {
				f := &failing{after: after}
				opt := options(t.TempDir())
				opt.FS.Hook = f.hook
				store, err := Open(opt)
				if err != nil {
					t.Fatal(err)
				}
				defer store.Close()
				f.set(label)
				if _, err := store.Create(context.Background(), uri, storetest.Identity()); !errors.Is(err, syscall.EIO) {
					t.Fatalf("got %v, want EIO", err)
				}
				if sets, err := reloaded(t, crash(t, opt.Dir)); err != nil || len(sets) != 0 {
					t.Errorf("a start after it: %d filters, %v; nobody was told that there is one", len(sets), err)
				}
				f.set("")
				made, err := store.Create(context.Background(), uri, storetest.Identity())
				if err != nil {
					t.Fatalf("the next try: %v", err)
				}
				storetest.Add(t, made, storetest.Keys(made, 0, 100))
				mustHold(t, crash(t, opt.Dir), 100)
			})
		}
	}
}

func reloaded(t *testing.T, dir string) (map[string]bool, error) {
	t.Helper()
	store, err := Open(options(dir))
	if err != nil {
		return nil, err
	}
	defer store.Close()
	sets, err := store.Load(context.Background())
	names := map[string]bool{}
	for spec := range sets {
		names[spec.Name] = true
	}
	return names, err
}

// A filter that could not be dropped continues to work, and can be dropped later.
func TestDropAfterAFailure(t *testing.T) {
	for _, label := range []string{"filter-drop", "filter-drop-syncdir"} {
		for _, after := range []bool{false, true} {
			t.Run(label, func(t *testing.T) {
				f := &failing{after: after}
				opt := options(t.TempDir())
				opt.FS.Hook = f.hook
				store, set := mustOpen(t, opt)
				storetest.Add(t, set, storetest.Keys(set, 0, 100))
				f.set(label)
				if err := store.Drop(context.Background(), uri); !errors.Is(err, syscall.EIO) {
					t.Fatalf("got %v, want EIO", err)
				}
				f.set("")
				if err := store.Ready(context.Background()); err != nil {
					t.Fatal(err)
				}
				storetest.Add(t, set, storetest.Keys(set, 100, 100))
				mustHold(t, crash(t, opt.Dir), 200)
				if err := store.Drop(context.Background(), uri); err != nil {
					t.Fatalf("the next try: %v", err)
				}
				if names, err := reloaded(t, crash(t, opt.Dir)); err != nil || len(names) != 0 {
					t.Errorf("after the drop: %v, %v", names, err)
				}
				if left, _ := os.ReadDir(filepath.Join(opt.Dir, filtersDir)); len(left) != 0 {
					t.Errorf("left: %v", left)
				}
			})
		}
	}
}

// The names of the data directory and of the folder of filters are durable.
func TestFoldersAreSyncedWithTheirParents(t *testing.T) {
	base := t.TempDir()
	synced := map[string]bool{}
	opt := options(filepath.Join(base, "var", "urifilter"))
	opt.FS.Record = func(op disk.Op, run func() (bool, error)) error {
		_, err := run()
		switch op.Kind {
		case disk.OpMkdir:
			synced[op.Path] = false
		case disk.OpSyncDir:
			for dir := range synced {
				if filepath.Dir(dir) == op.Path {
					synced[dir] = true
				}
			}
		}
		return err
	}
	store, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if len(synced) != 3 {
		t.Errorf("folders made by operations that are known: %v, want three", synced)
	}
	for dir, ok := range synced {
		if !ok {
			t.Errorf("%s: the folder above was not synced", dir)
		}
	}
}

// Merged bits are in memory once they are on the disk, and not before: an item that is
// called seen stays seen.
func TestMergedBitsAreSeenAfterCommit(t *testing.T) {
	ctx := context.Background()
	opt := options(t.TempDir())
	_, set := mustOpen(t, opt)
	storetest.Add(t, set, storetest.Keys(set, 0, 100))
	other, err := bloom.New(set.Header())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	keys, fresh := storetest.Keys(set, 100, 100), make([]bool, 100)
	other.Add(keys, fresh)
	buf := make([]byte, bloom.StripeBytes)
	for range 2 { // merging twice does no harm
		if err := set.MergeStripe(ctx, 0, other.Stripe(0, buf)); err != nil {
			t.Fatal(err)
		}
	}
	if err := set.Has(ctx, keys, fresh); err != nil {
		t.Fatal(err)
	}
	for i, f := range fresh {
		if !f {
			t.Fatalf("item %d is seen before Commit, and a crash would make it new", i)
		}
	}
	mustHold(t, crash(t, opt.Dir), 100)
	if err := set.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := set.Has(ctx, keys, fresh); err != nil {
		t.Fatal(err)
	}
	for i, f := range fresh {
		if f {
			t.Fatalf("item %d is new after Commit", i)
		}
	}
	mustHold(t, crash(t, opt.Dir), 200)
	if left, _ := filepath.Glob(filepath.Join(opt.Dir, "filters", "*", "*.tmp")); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// A filter that cannot be dropped or cleared, as a file of its journal cannot be removed, goes on.
func TestFilterGoesOnAfterAJournalThatIsNotRemoved(t *testing.T) {
	ctx := context.Background()
	next := storetest.Identity()
	next.Generation = 2
	for name, end := range map[string]func(*Store) error{
		"drop": func(s *Store) error { return s.Drop(ctx, uri) },
		"clear": func(s *Store) error {
			return s.Clear(ctx, uri, next, func(cleared engine.Set) { storetest.Add(t, cleared, storetest.Keys(cleared, 0, 10)) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := &failing{}
			opt := options(t.TempDir())
			opt.FS.Hook = f.hook
			store, set := mustOpen(t, opt)
			storetest.Add(t, set, storetest.Keys(set, 0, 100))
			must(t, set.checkpoint()) // which keeps the segment as a spare
			f.set("journal-spare-remove")
			if err := end(store); !errors.Is(err, syscall.EIO) || errors.Is(err, engine.ErrFailed) {
				t.Fatalf("got %v, want EIO, which is no failure of the store", err)
			}
			f.set("")
			must(t, store.Ready(ctx))
			storetest.Add(t, set, storetest.Keys(set, 100, 100))
			mustHold(t, crash(t, opt.Dir), 200)
			must(t, end(store))
		})
	}
}
