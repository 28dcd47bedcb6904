package embedded

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// fullDisk is a disk on which nothing can be made or grow while full is set, except for as many
// bytes as the reserve has once it is removed.
type fullDisk struct{ full, reserve atomic.Bool }

func (d *fullDisk) fs() disk.FS {
	return disk.FS{Record: func(op disk.Op, run func() (bool, error)) error {
		takes := op.Kind == disk.OpMkdir || op.Kind == disk.OpOpen && op.Flag&os.O_CREATE != 0 ||
			op.Kind == disk.OpWrite && !strings.HasPrefix(op.Label, "journal-")
		if d.full.Load() && takes && !d.reserve.Load() {
			return &os.PathError{Op: op.Label, Path: op.Path, Err: syscall.ENOSPC}
		}
		_, err := run()
		if op.Label == "reserve-use" && err == nil {
			d.reserve.Store(true)
		}
		return err
	}}
}

// On a full disk every call of the store either frees space, and works, or says that there is none.
func TestFullDiskInEveryCall(t *testing.T) {
	ctx := context.Background()
	d := &fullDisk{}
	opt := options(t.TempDir())
	opt.FS = d.fs()
	store, set := mustOpen(t, opt)
	exact := engine.Spec{ID: 5, Name: "five", Kind: "exact", Params: configs.Exact{}}
	if _, err := store.Create(ctx, exact, storetest.Identity()); err != nil {
		t.Fatal(err)
	}
	storetest.Add(t, set, storetest.Keys(set, 0, 100))
	d.full.Store(true)
	for name, call := range map[string]func() error{
		"Create": func() error {
			_, err := store.Create(ctx, engine.Spec{ID: 6, Name: "six", Kind: "exact", Params: configs.Exact{}}, storetest.Identity())
			return err
		},
		"TakeID": func() error { _, err := store.TakeID(ctx, "seven", 1000); return err },
		"NoteID": func() error { return store.NoteID(ctx, 1000) },
		"merge": func() error {
			return set.MergeStripe(ctx, 0, set.bits.Stripe(0, make([]byte, set.Header().StripeSize(0))))
		},
		"checkpoint": func() error {
			return set.checkpointBy(true, func(path string, from uint64) error { return set.memory.Write(opt.FS, path, from) })
		},
	} {
		if err := call(); !errors.Is(err, engine.ErrNoSpace) {
			t.Errorf("%s: %v, want ErrNoSpace", name, err)
		}
	}
	var cleared engine.Set
	next := storetest.Identity()
	next.Generation = 2
	if err := store.Clear(ctx, uri, next, func(s engine.Set) { cleared = s }); err != nil {
		t.Fatalf("clear: %v", err)
	}
	d.reserve.Store(false) // what was freed is taken again
	if _, err := os.Stat(filepath.Join(opt.Dir, reserveName)); err != nil {
		t.Errorf("the reserve was not made again: %v", err)
	}
	if fresh := make([]bool, 100); cleared.Has(ctx, storetest.Keys(cleared, 0, 100), fresh) != nil || !fresh[0] {
		t.Error("it is not cleared")
	}
	if err := store.Drop(ctx, exact); err != nil {
		t.Errorf("drop: %v", err)
	}
}
