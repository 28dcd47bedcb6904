package embedded

import (
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

var news = engine.Spec{ID: 7, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}

// timedOptions are the options of a store whose time passes only when the test says so.
func timedOptions(dir string, clock *hands) Options {
	opt := options(dir)
	opt.Clock = clock.clock()
	return opt
}

// restarted is the clock of a new process: an elapsed time of its own, the same machine's wall clock.
func (h *hands) restarted() *hands {
	h.mu.Lock()
	defer h.mu.Unlock()
	return &hands{elapsed: time.Duration(rand.Int64N(1e15)), wall: h.wall}
}

// openTimed opens a store and its filter news, which it creates if missing.
func openTimed(t testing.TB, opt Options) (*Store, *timed, error) {
	t.Helper()
	store, err := Open(opt)
	if err != nil {
		return nil, nil, err
	}
	t.Cleanup(func() { _ = store.Close() })
	sets, err := store.Load(context.Background())
	if err != nil {
		return store, nil, errors.Join(err, store.Close())
	}
	if bad := store.Quarantined(); len(bad) > 0 {
		return store, nil, bad[0].Cause
	}
	if found := sets[news]; found != nil {
		return store, found.(*timed), nil
	}
	made, err := store.Create(context.Background(), news, storetest.Identity())
	if err != nil {
		return store, nil, err
	}
	return store, made.(*timed), nil
}

func mustOpenTimed(t testing.TB, opt Options) (*Store, *timed) {
	t.Helper()
	store, set, err := openTimed(t, opt)
	if err != nil {
		t.Fatal(err)
	}
	return store, set
}

// freshOf counts the items that are new.
func freshOf(t testing.TB, set *timed, from, n int) int {
	t.Helper()
	fresh := make([]bool, n)
	if err := set.Has(context.Background(), storetest.Keys(set, from, n), fresh); err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, is := range fresh {
		if is {
			count++
		}
	}
	return count
}

func accept(t testing.TB, set *timed, from, n int, expire time.Duration) {
	t.Helper()
	got, err := set.AddFor(context.Background(), storetest.Keys(set, from, n), expire, make([]bool, n))
	if err != nil || got != n {
		t.Fatalf("%d of %d items are new: %v", got, n, err)
	}
}

// A deadline is restored from the disk to the millisecond in each way: from the journal alone,
// from the file alone, and from both.
func TestDeadlinesComeBack(t *testing.T) {
	for _, how := range []string{"journal", "file", "both", "file and an older journal"} {
		t.Run(how, func(t *testing.T) {
			dir, clock := t.TempDir(), newHands()
			_, set := mustOpenTimed(t, timedOptions(dir, clock))
			accept(t, set, 0, 1000, time.Second)
			accept(t, set, 1000, 1000, time.Minute)
			clock.pass(900 * time.Millisecond)
			older := crash(t, dir)
			if how != "journal" {
				if err := set.checkpoint(); err != nil {
					t.Fatal(err)
				}
			}
			if how == "both" {
				clock.pass(100 * time.Millisecond)
				accept(t, set, 0, 1000, 100*time.Millisecond) // expired, and accepted again
			} else {
				clock.pass(99 * time.Millisecond)
			}
			copied := crash(t, dir)
			if how == "file and an older journal" { // a crash between rename and removal
				for _, path := range journals(t, older) {
					text, err := os.ReadFile(path)
					if err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(filepath.Join(copied, "filters", "7-news", filepath.Base(path)), text, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
			clock = clock.restarted()
			_, set = mustOpenTimed(t, timedOptions(copied, clock))
			if got := freshOf(t, set, 0, 2000); got != 0 {
				t.Errorf("after the restart: %d items are new before they expire", got)
			}
			left := time.Millisecond
			if how == "both" {
				left = 100 * time.Millisecond
			}
			clock.pass(left - time.Millisecond)
			if got := freshOf(t, set, 0, 2000); got != 0 {
				t.Errorf("a millisecond before: %d items are new before they expire", got)
			}
			clock.pass(time.Millisecond)
			if got := freshOf(t, set, 0, 1000); got != 1000 {
				t.Errorf("%d items are duplicates after they expired", 1000-got)
			}
			if got := freshOf(t, set, 1000, 1000); got != 0 {
				t.Errorf("%d of the others are new before they expire", got)
			}
		})
	}
}

func journals(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "filters", "*", "journal-*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no journal in %s: %v", dir, err)
	}
	return names
}

// Time that passes while no daemon runs is measured by the machine's clock.
func TestItemsExpireWhileNobodyRuns(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	store, set := mustOpenTimed(t, timedOptions(dir, clock))
	accept(t, set, 0, 100, time.Hour)
	_ = store.Close()
	clock = clock.restarted()
	clock.pass(time.Hour - time.Millisecond)
	store, set = mustOpenTimed(t, timedOptions(dir, clock))
	if got := freshOf(t, set, 0, 100); got != 0 {
		t.Errorf("%d items are new before they expire", got)
	}
	_ = store.Close()
	clock = clock.restarted()
	clock.pass(time.Millisecond)
	_, set = mustOpenTimed(t, timedOptions(dir, clock))
	if got := freshOf(t, set, 0, 100); got != 100 {
		t.Errorf("%d items are duplicates after they expired", 100-got)
	}
}

// A step of the machine's clock changes nothing while the daemon runs, nor at a restart
// after it has been noticed.
func TestClockStepWhileRunning(t *testing.T) {
	for _, step := range []time.Duration{-20 * 365 * 24 * time.Hour, -time.Hour, time.Hour, 20 * 365 * 24 * time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			dir, clock := t.TempDir(), newHands()
			store, set := mustOpenTimed(t, timedOptions(dir, clock))
			accept(t, set, 0, 100, time.Minute)
			clock.set(step)
			if got := freshOf(t, set, 0, 100); got != 0 {
				t.Errorf("%d items are new after the step", got)
			}
			clock.pass(30 * time.Second)
			accept(t, set, 100, 100, time.Minute)
			testserver.Await(t, "the step is noticed", func() bool { return !set.due() })
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			clock = clock.restarted()
			clock.pass(29*time.Second + 999*time.Millisecond)
			_, set = mustOpenTimed(t, timedOptions(dir, clock))
			if got := freshOf(t, set, 0, 200); got != 0 {
				t.Errorf("%d items are new before they expire, after a restart", got)
			}
			clock.pass(time.Millisecond)
			if got := freshOf(t, set, 0, 100); got != 100 {
				t.Errorf("%d items are duplicates after they expired, after a restart", 100-got)
			}
			if got := freshOf(t, set, 100, 100); got != 0 {
				t.Errorf("%d of those that were accepted after the step are new before they expire", got)
			}
		})
	}
}

// The clock is set while no daemon runs. If it is set back, no time has passed, so that items
// live longer by the time of the pause; if it is set forward, that much time has passed.
func TestClockStepOverARestart(t *testing.T) {
	t.Run("back", func(t *testing.T) {
		dir, clock := t.TempDir(), newHands()
		store, set := mustOpenTimed(t, timedOptions(dir, clock))
		accept(t, set, 0, 100, time.Minute)
		clock.pass(20 * time.Second)
		accept(t, set, 100, 100, time.Minute) // the last time that the disk knows of
		_ = store.Close()
		clock = clock.restarted()
		clock.set(-24 * time.Hour)
		store, set = mustOpenTimed(t, timedOptions(dir, clock))
		clock.pass(39*time.Second + 999*time.Millisecond)
		if got := freshOf(t, set, 0, 200); got != 0 {
			t.Errorf("%d items are new before they expire", got)
		}
		clock.pass(time.Millisecond)
		if got := freshOf(t, set, 0, 100); got != 100 {
			t.Errorf("%d items are duplicates after they expired", 100-got)
		}
		_ = store.Close()
	})
	t.Run("forward", func(t *testing.T) {
		dir, clock := t.TempDir(), newHands()
		store, set := mustOpenTimed(t, timedOptions(dir, clock))
		accept(t, set, 0, 100, time.Minute)
		accept(t, set, 100, 100, 2*time.Hour)
		_ = store.Close()
		clock = clock.restarted()
		clock.set(time.Hour)
		_, set = mustOpenTimed(t, timedOptions(dir, clock))
		if got := freshOf(t, set, 0, 100); got != 100 {
			t.Errorf("%d items are duplicates, though the clock says that they expired", 100-got)
		}
		if got := freshOf(t, set, 100, 100); got != 0 {
			t.Errorf("%d items are new before they expire", got)
		}
	})
}

// Expired items leave the memory, and after a while the disk.
func TestExpiredItemsLeaveMemoryAndDisk(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	_, set := mustOpenTimed(t, timedOptions(dir, clock))
	for from := 0; from < 200_000; from += 10_000 {
		accept(t, set, from, 10_000, time.Second)
	}
	accept(t, set, 200_000, 100, time.Hour)
	before := set.Stats()
	if before.Items != 200_100 || usage(t, dir) < 200_000*24 {
		t.Errorf("%+v, %d bytes on disk", before, usage(t, dir))
	}
	clock.pass(time.Minute + time.Second)
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(10 * time.Millisecond) {
		st, disk := set.Stats(), size(t, filepath.Join(dir, "filters", "7-news", "entries"))+set.journal.Bytes()
		if st.Items == 100 && st.Bytes < before.Bytes/4 && disk < 10_000 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%+v, before %+v; file and journal have %d bytes", st, before, disk)
		}
	}
	if got := freshOf(t, set, 200_000, 100); got != 0 {
		t.Errorf("%d of those that have not expired are new", got)
	}
}

func usage(t *testing.T, dir string) (total int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			info, err := d.Info()
			if err == nil {
				total += info.Size()
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return total
}

// Batches and expiry go on while checkpoints are written: no acknowledged item is lost.
func TestTimedCheckpointsUnderLoad(t *testing.T) {
	dir := t.TempDir()
	opt := options(dir)
	opt.CheckpointBytes = 64 << 10
	_, set := mustOpenTimed(t, opt)
	var acked atomic.Int64
	var wg sync.WaitGroup
	stop := make(chan struct{})
	wg.Go(func() {
		for i := 0; ; i += 100 {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := set.AddFor(context.Background(), storetest.Keys(set, i, 100), time.Hour, make([]bool, 100)); err != nil {
				t.Error(err)
				return
			}
			acked.Store(int64(i + 100))
			brief := storetest.Keys(set, 1<<30+i, 100)
			if _, err := set.AddFor(context.Background(), brief, time.Millisecond, make([]bool, 100)); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 10 {
		if err := set.checkpoint(); err != nil {
			t.Error(err)
		}
		n := int(acked.Load())
		copied := filepath.Join(t.TempDir(), "copy")
		set.checkpointing.Lock()
		err := copyFolder(copied, dir)
		set.checkpointing.Unlock()
		if errors.Is(err, os.ErrNotExist) {
			continue // a spare that became a segment
		} else if err != nil {
			t.Fatal(err)
		}
		_, again := mustOpenTimed(t, options(copied))
		if got := freshOf(t, again, 0, n); got != 0 {
			t.Fatalf("%d of %d acknowledged items are lost", got, n)
		}
	}
	close(stop)
	wg.Wait()
}
