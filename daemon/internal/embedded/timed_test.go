package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/storetest"
	"github.com/cr-clawer/urifilter/daemon/internal/timing"
)

var news = engine.Spec{ID: 7, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}

// timedOptions are those of a store whose time goes when the test says so.
func timedOptions(dir string, clock *hands) Options {
	opt := options(dir)
	opt.Clock = clock.clock()
	return opt
}

// restarted is a clock as a new process has it: its own, beside the same machine's.
func (h *hands) restarted() *hands {
	again := &hands{}
	again.elapsed.Store(rand.Int64N(1e15))
	again.wall.Store(h.wall.Load())
	return again
}

// openTimed opens a store and its filter news, made if missing.
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

// freshOf says which of the items are new.
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

// Each way in which a deadline comes back from the disk keeps it to the millisecond: the
// journal alone, the file alone, and both.
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
				accept(t, set, 0, 1000, 100*time.Millisecond) // expired, and accepted anew
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

// Time that passes while no daemon runs counts by the machine's clock.
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
			clock.wall.Add(int64(step))
			if got := freshOf(t, set, 0, 100); got != 0 {
				t.Errorf("%d items are new after the step", got)
			}
			clock.pass(30 * time.Second)
			accept(t, set, 100, 100, time.Minute)
			for deadline := time.Now().Add(2 * time.Minute); set.due(); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatal("the step is not noticed")
				}
			}
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

// A clock that was set while no daemon ran: set back, no time has passed, so that items
// live longer by the time of the pause; set forward, that much time has passed.
func TestClockStepOverARestart(t *testing.T) {
	t.Run("back", func(t *testing.T) {
		dir, clock := t.TempDir(), newHands()
		store, set := mustOpenTimed(t, timedOptions(dir, clock))
		accept(t, set, 0, 100, time.Minute)
		clock.pass(20 * time.Second)
		accept(t, set, 100, 100, time.Minute) // the last that the disk knows of the time
		_ = store.Close()
		clock = clock.restarted()
		clock.wall.Add(-int64(24 * time.Hour))
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
		clock.wall.Add(int64(time.Hour))
		_, set = mustOpenTimed(t, timedOptions(dir, clock))
		if got := freshOf(t, set, 0, 100); got != 100 {
			t.Errorf("%d items are duplicates, though the clock says that they expired", 100-got)
		}
		if got := freshOf(t, set, 100, 100); got != 0 {
			t.Errorf("%d items are new before they expire", got)
		}
	})
}

// What has expired leaves the memory, and after a while the disk.
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

// Each file operation fails, before or after it took effect: what was acknowledged comes
// back with its deadline.
func TestNoRaceEveryOperationFailingTimed(t *testing.T) {
	eio := errors.New("input/output error")
	run := func(dir string, clock *hands, hook func(string, string) durable.Fault) (acked int, err error) {
		opt := timedOptions(dir, clock)
		opt.FS = durable.FS{Hook: hook}
		store, set, err := openTimed(t, opt)
		if store != nil {
			defer store.Close()
		}
		if err != nil {
			return 0, err
		}
		for round := range 4 {
			if _, err := set.AddFor(context.Background(), storetest.Keys(set, acked, 2000), time.Minute, make([]bool, 2000)); err != nil {
				return acked, err
			}
			acked += 2000
			if round < 3 {
				if err := set.checkpoint(); err != nil && set.journal.Full() != nil {
					return acked, err
				}
				set.retryAt = time.Time{}
			}
		}
		return acked, nil
	}
	labels := map[string]bool{}
	var mu sync.Mutex
	if _, err := run(t.TempDir(), newHands(), func(label, _ string) durable.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label] = true
		return durable.Fault{}
	}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"entries-create", "entries-write", "entries-sync", "entries-rename", "entries-syncdir", "journal-sync", "journal-recycle"} {
		if !labels[want] {
			t.Errorf("%s was never done", want)
		}
	}
	for label := range labels {
		for _, nth := range []int64{1, 2, 3, 4} {
			for _, persisted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%v", label, nth, persisted), func(t *testing.T) {
					t.Parallel()
					var seen atomic.Int64
					dir, clock := t.TempDir(), newHands()
					acked, _ := run(dir, clock, func(l, _ string) durable.Fault {
						switch {
						case l != label || seen.Add(1) != nth:
							return durable.Fault{}
						case persisted:
							return durable.Fault{After: eio}
						default:
							return durable.Fault{Before: eio}
						}
					})
					clock = clock.restarted()
					clock.pass(time.Minute - time.Millisecond)
					_, set := mustOpenTimed(t, timedOptions(crash(t, dir), clock))
					if got := freshOf(t, set, 0, acked); got != 0 {
						t.Errorf("%d of %d items are lost", got, acked)
					}
					clock.pass(time.Millisecond)
					if got := freshOf(t, set, 0, 8000); got != 8000 {
						t.Errorf("%d items are duplicates after they expired", 8000-got)
					}
				})
			}
		}
	}
}

// The journal cut at any length, as a crash leaves it: whole batches come back, and no
// item has another deadline.
func TestNoRaceTornTimedJournal(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	_, set := mustOpenTimed(t, timedOptions(dir, clock))
	const batches, each = 12, 7
	for i := range batches {
		accept(t, set, i*each, each, time.Duration(i+1)*time.Second)
	}
	crashed := crash(t, dir)
	path := filepath.Join(crashed, "filters", "7-news", "journal-0000000000000001")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	records := 64 + batches*16*(1+2*each)
	for cut := 64; cut <= records+16; cut += 7 { // 7: every byte of a slot, in some record
		torn := append(slices.Clone(whole[:cut]), bytes.Repeat([]byte{0xa5}, len(whole)-cut)...)
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		clock := clock.restarted()
		store, set, err := openTimed(t, timedOptions(crashed, clock))
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		kept := min(batches, (cut-64)/(16*(1+2*each)))
		if got := freshOf(t, set, 0, kept*each); got != 0 {
			t.Fatalf("cut at %d: %d of %d batches' items are lost", cut, got, kept)
		}
		if got := freshOf(t, set, kept*each, (batches-kept)*each); got != (batches-kept)*each {
			t.Fatalf("cut at %d: items of a torn batch are seen", cut)
		}
		if cut%97 == 0 {
			for i := range kept {
				clock.pass(time.Second)
				if got := freshOf(t, set, 0, kept*each); got != (i+1)*each {
					t.Fatalf("cut at %d, after %d s: %d items are new, want %d", cut, i+1, got, (i+1)*each)
				}
			}
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, name := range journals(t, crashed) {
			if name != path {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// Every byte of a file of entries that is flipped, and every length it is cut to, is found.
func TestNoRaceCorruptEntries(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	store, set := mustOpenTimed(t, timedOptions(dir, clock))
	accept(t, set, 0, 40, time.Hour)
	if err := set.checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "filters", "7-news", "entries")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, data []byte) {
		t.Helper()
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, _, err := kindReads(news, path, clock)
		if err == nil || m != nil {
			t.Fatalf("%s: no error", what)
		}
		if !errors.Is(err, bloom.ErrCorrupt) || !strings.Contains(err.Error(), path) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for at := range whole {
		data := slices.Clone(whole)
		data[at] ^= 1 << (at % 8)
		try(fmt.Sprintf("flipped at %d", at), data)
	}
	for n := range len(whole) {
		try(fmt.Sprintf("cut to %d", n), whole[:n])
	}
	try("longer", append(slices.Clone(whole), 0))

	mustQuarantine(t, dir, path)
	var found []Finding
	if err := Verify(dir, false, func(f Finding) { found = append(found, f) }); err != nil || len(found) != 1 || len(found[0].Damage) != 1 {
		t.Errorf("verify: %+v, %v", found, err)
	}
	if err := os.WriteFile(path, whole, 0o600); err != nil {
		t.Fatal(err)
	}
	found = nil
	if err := Verify(dir, false, func(f Finding) { found = append(found, f) }); err != nil || len(found) != 1 || len(found[0].Damage) != 0 || found[0].Blocks < 2 {
		t.Errorf("verify of what is sound: %+v, %v", found, err)
	}
}

// A damaged record of the journal is left out by a repair, all others are kept.
func TestRepairTimedJournal(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	opt := timedOptions(dir, clock)
	opt.Clock = timing.SystemClock() // as Verify has it
	store, set := mustOpenTimed(t, opt)
	for i := range 10 {
		accept(t, set, i*100, 100, time.Hour)
	}
	copied := crash(t, dir)
	_ = store.Close()
	path := journals(t, copied)[0]
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text[64+3*(201*16)+500] ^= 4 // in the fourth record
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	opt.Dir = copied
	mustQuarantine(t, copied, filepath.Base(path))
	var found []Finding
	for range 2 {
		if err := Verify(copied, true, func(f Finding) { found = append(found, f) }); err != nil {
			t.Fatal(err)
		}
	}
	if !found[0].Repaired || found[0].Keys != 900 || found[0].Items != 900 || len(found[1].Damage) != 0 || found[1].Items != 900 {
		t.Errorf("repair, and verify after it: %+v", found)
	}
	_, set = mustOpenTimed(t, opt)
	if got := freshOf(t, set, 0, 1000); got != 100 {
		t.Errorf("%d items lost by a damaged record of 100", got)
	}
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
		err := os.CopyFS(copied, os.DirFS(dir))
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

// kindReads reads a file as the kind of the filter does.
func kindReads(spec engine.Spec, path string, clock *hands) (kind.Memory, uint64, error) {
	of, err := kindOf(spec)
	if err != nil {
		return nil, 0, err
	}
	return of.Read(news, path, clock.clock())
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}
