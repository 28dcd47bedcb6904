package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

func options(dir string) Options {
	return Options{Dir: dir, Durability: "always", Log: slog.New(slog.DiscardHandler)}
}

func TestConformance(t *testing.T) {
	t.Run("always", func(t *testing.T) { storetest.Run(t, fresh("always")) })
}

func TestNoRaceConformance(t *testing.T) {
	for _, durability := range []string{"always", "interval", "none"} {
		t.Run(durability, func(t *testing.T) {
			if durability != "always" {
				storetest.Run(t, fresh(durability))
			}
			if durability != "none" { // for batches it is like "interval": they wait for no sync
				storetest.RunLarge(t, fresh(durability))
			}
		})
	}
}

func fresh(durability string) func(t *testing.T) storetest.Opener {
	return func(t *testing.T) storetest.Opener {
		opt, clock := options(t.TempDir()), newHands()
		opt.Durability, opt.Clock = durability, clock.clock()
		return storetest.Opener{Open: func() (engine.Store, error) { return Open(opt) }, Pass: clock.pass}
	}
}

// hands is a clock that moves only when it is told to. Time passes for both hands at once: a store
// that looked between the two would take the difference for a step.
type hands struct {
	mu      sync.Mutex
	elapsed time.Duration
	wall    time.Time
}

func newHands() *hands { return &hands{wall: time.Now().Round(0)} }

func (h *hands) clock() timing.Clock {
	return timing.Clock{
		Elapsed: func() time.Duration { h.mu.Lock(); defer h.mu.Unlock(); return h.elapsed },
		Wall:    func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.wall },
	}
}

func (h *hands) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.elapsed += d
	h.wall = h.wall.Add(d)
}

// set steps the machine's clock, as an administrator would.
func (h *hands) set(step time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.wall = h.wall.Add(step)
}

var uri = engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 20_000, ErrorRate: 1e-4, OnFull: "warn"}}

// opened opens a store and its filter uri, which it creates if missing. Close the store, or leave
// that to the end of the test.
func opened(t testing.TB, opt Options) (*Store, *set, error) {
	t.Helper()
	store, err := Open(opt)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = store.Close() })
	sets, err := store.Load(context.Background())
	if err != nil {
		return store, nil, err
	}
	if bad := store.Quarantined(); len(bad) > 0 {
		return store, nil, bad[0].Cause
	}
	if found := sets[uri]; found != nil {
		return store, found.(*set), nil
	}
	made, err := store.Create(context.Background(), uri, storetest.Identity())
	if err != nil {
		return store, nil, err
	}
	return store, made.(*set), nil
}

func mustOpen(t testing.TB, opt Options) (*Store, *set) {
	t.Helper()
	store, set, err := opened(t, opt)
	if err != nil {
		t.Fatal(err)
	}
	return store, set
}

// mustHold reopens the directory and requires items 0 to n-1 to be in it.
func mustHold(t *testing.T, dir string, n int) *set {
	t.Helper()
	_, set := mustOpen(t, options(dir))
	fresh := make([]bool, n)
	if err := set.Has(context.Background(), storetest.Keys(set, 0, n), fresh); err != nil {
		t.Fatal(err)
	}
	for i, f := range fresh {
		if f {
			t.Fatalf("item %d of %d is lost", i, n)
		}
	}
	return set
}

func TestCheckpointMovesTheJournalIntoTheFile(t *testing.T) {
	dir := t.TempDir()
	_, set := mustOpen(t, options(dir))
	storetest.Add(t, set, storetest.Keys(set, 0, 5000))
	if set.journal.Bytes() == 0 {
		t.Fatal("nothing in the journal")
	}
	if err := set.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if got := set.journal.Bytes(); got != 0 {
		t.Errorf("after a checkpoint: %d bytes of journal", got)
	}
	copied := crash(t, dir)
	if names, _ := filepath.Glob(filepath.Join(copied, "filters", "*", "journal-*")); len(names) != 0 {
		t.Errorf("segments left: %v", names)
	}
	mustHold(t, copied, 5000)
	storetest.Add(t, set, storetest.Keys(set, 5000, 5000))
	mustHold(t, crash(t, dir), 10_000)
}

// What a start finds of a journal counts: if the daemon is restarted more often than its journals grow
// long, the file is rewritten all the same.
func TestJournalDoesNotGrowOverRestarts(t *testing.T) {
	opt := options(t.TempDir())
	opt.CheckpointBytes, opt.SegmentBytes = 512<<10, 64<<10
	for i := range 20 {
		store, set := mustOpen(t, opt)
		if store.checkpointDue(); i > 0 && set.due() {
			t.Fatalf("start %d: %d bytes of journal after a checkpoint", i, set.journal.Bytes())
		}
		storetest.Add(t, set, storetest.Keys(set, i, 1))
		size, err := journal.Size(set.dir)
		if err != nil {
			t.Fatal(err)
		}
		if size > 2*opt.CheckpointBytes {
			t.Fatalf("start %d: %d bytes of journal for %d items, though it is to be dropped at %d", i, size, i+1, opt.CheckpointBytes)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	mustHold(t, opt.Dir, 20)
}

// A checkpoint that fails is due until one succeeds, even if nothing more is added, and each further try takes
// no new segment.
func TestCheckpointThatFailsIsDue(t *testing.T) {
	f := &failing{}
	opt := options(t.TempDir())
	opt.FS.Hook = f.hook
	store, set := mustOpen(t, opt)
	segments := func() int {
		names, err := filepath.Glob(filepath.Join(set.dir, "journal-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(names)
	}
	f.set("bitmap-write")
	for i := range 5 {
		storetest.Add(t, set, storetest.Keys(set, i, 1))
		write := func(path string, from uint64) error {
			if i == 0 && set.due() {
				t.Error("another is due while the first try runs")
			}
			return set.memory.Write(opt.FS, path, from)
		}
		if err := set.checkpointBy(true, write); !errors.Is(err, syscall.EIO) {
			t.Fatalf("got %v, want EIO", err)
		}
	}
	if n := segments(); n > 2 {
		t.Errorf("%d segments after five tries", n)
	}
	if !set.due() {
		t.Fatal("it is not due")
	}
	f.set("")
	if store.checkpointDue(); !set.due() {
		t.Error("tried again at once")
	}
	set.retryNow()
	if store.checkpointDue(); set.due() || segments() > 1 {
		t.Errorf("after one that succeeded: due %v, %d segments", set.due(), segments())
	}
	mustHold(t, crash(t, opt.Dir), 5)
}

// retryNow lets a checkpoint that failed be tried again at once.
func (k *diskFilter) retryNow() {
	k.checkpointing.Lock()
	defer k.checkpointing.Unlock()
	k.retryAt = time.Time{}
}

// Batches go on while checkpoints are written; a crash at any moment loses nothing.
func TestCheckpointsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	_, set := mustOpen(t, options(dir))
	var acked atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; i < 20_000; i += 100 {
			select {
			case <-stop:
				return
			default:
			}
			fresh := make([]bool, 100)
			if _, err := set.Add(context.Background(), storetest.Keys(set, i, 100), fresh); err != nil {
				t.Error(err)
				return
			}
			acked.Store(int64(i + 100))
		}
	}()
	for range 12 {
		if err := set.checkpoint(); err != nil {
			t.Error(err)
		}
		n := int(acked.Load())
		// A copy does not show a single moment, but neither does a dying disk: files
		// that vanish meanwhile are spares that became segments.
		copied := filepath.Join(t.TempDir(), "copy")
		set.checkpointing.Lock()
		err := copyFolder(copied, dir)
		set.checkpointing.Unlock()
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		} else if err != nil {
			continue
		}
		mustHold(t, copied, n)
	}
	close(stop)
	<-done
}

// Each file operation fails, before or after it took effect, while a filter is made,
// filled and checkpointed: what was acknowledged survives a restart.
func TestEveryOperationFailing(t *testing.T) {
	const batch = 300
	eio := errors.New("input/output error")
	run := func(dir string, hook func(string, string) disk.Fault) (acked int, err error) {
		opt := options(dir)
		opt.FS = disk.FS{Hook: hook}
		store, set, err := opened(t, opt)
		if store != nil {
			defer store.Close()
		}
		if err != nil {
			return 0, err
		}
		for round := range 4 {
			fresh := make([]bool, batch)
			if _, err := set.Add(context.Background(), storetest.Keys(set, acked, batch), fresh); err != nil {
				return acked, err
			}
			acked += batch
			if round < 3 {
				if err := set.checkpoint(); err != nil && set.journal.Full() != nil {
					return acked, err
				}
				set.retryNow()
			}
		}
		return acked, nil
	}
	labels := map[string]bool{}
	var mu sync.Mutex
	counting := func(label, _ string) disk.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label] = true
		return disk.Fault{}
	}
	if _, err := run(t.TempDir(), counting); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"bitmap-create", "bitmap-write", "bitmap-sync", "bitmap-rename", "bitmap-syncdir", "spec-rename", "filter-rename", "journal-sync", "journal-recycle"} {
		if !labels[want] {
			t.Errorf("%s was never done", want)
		}
	}
	for label := range labels {
		for _, nth := range []int64{1, 2, 3} {
			for _, persisted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%v", label, nth, persisted), func(t *testing.T) {
					t.Parallel()
					var seen atomic.Int64
					dir := t.TempDir()
					acked, _ := run(dir, func(l, _ string) disk.Fault {
						switch {
						case l != label || seen.Add(1) != nth:
							return disk.Fault{}
						case persisted:
							return disk.Fault{After: eio}
						default:
							return disk.Fault{Before: eio}
						}
					})
					mustHold(t, crash(t, dir), acked)
				})
			}
		}
	}
}

func TestFailureIsSticky(t *testing.T) {
	var broken atomic.Bool
	opt := options(t.TempDir())
	opt.FS.Hook = func(label, _ string) disk.Fault {
		if broken.Load() && label == "journal-sync" {
			return disk.Fault{Before: syscall.EIO}
		}
		return disk.Fault{}
	}
	store, set := mustOpen(t, opt)
	storetest.Add(t, set, storetest.Keys(set, 0, 10))
	broken.Store(true)
	keys := storetest.Keys(set, 10, 10)
	if _, err := set.Add(context.Background(), keys, make([]bool, 10)); !errors.Is(err, engine.ErrFailed) {
		t.Fatalf("got %v, want ErrFailed", err)
	}
	select {
	case <-store.Failed():
	case <-time.After(2 * time.Minute):
		t.Fatal("Failed is not closed")
	}
	broken.Store(false)
	if err := store.Ready(context.Background()); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("Ready: %v, want ErrFailed", err)
	}
	// They must not be acknowledged as duplicates either.
	if _, err := set.Add(context.Background(), keys, make([]bool, 10)); !errors.Is(err, engine.ErrFailed) {
		t.Errorf("second time: %v, want ErrFailed", err)
	}
}
