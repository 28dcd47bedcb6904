package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
)

func key(i int) bloom.Hash { return bloom.Hash{Hi: uint64(i) + 1, Lo: ^uint64(i)} }

func open(t testing.TB, dir string, mode Sync, next uint64, hook func(string, string) durable.Fault) *Journal {
	t.Helper()
	j := Open(Options{Dir: dir, FS: durable.FS{Hook: hook}, Sync: mode, Generation: 1, Next: next, Log: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// add appends keys from..from+n-1 as one batch and waits for them.
func add(j *Journal, from, n int) error {
	if err := j.Reserve(n); err != nil {
		return err
	}
	defer j.Release(n)
	keys, fresh := make([]bloom.Hash, n), make([]bool, n)
	for i := range keys {
		keys[i], fresh[i] = key(from+i), true
	}
	for len(keys) > 0 { // as bloom.Map does it
		c := min(512, len(keys))
		j.Append(keys[:c], fresh[:c])
		keys, fresh = keys[c:], fresh[c:]
	}
	return j.Wait()
}

type reading struct {
	found Found
	keys  map[bloom.Hash]bool
}

func replay(dir string, change func(*Reading)) (reading, error) {
	got := reading{keys: map[bloom.Hash]bool{}}
	r := Reading{Dir: dir, Generation: 1, From: 1, Apply: func(keys []bloom.Hash) {
		for _, k := range keys {
			got.keys[k] = true
		}
	}}
	if change != nil {
		change(&r)
	}
	found, err := Replay(r)
	got.found = found
	return got, err
}

func (r reading) mustHold(t testing.TB, n int) {
	t.Helper()
	for i := range n {
		if !r.keys[key(i)] {
			t.Fatalf("key %d of %d is lost (%d found)", i, n, len(r.keys))
		}
	}
}

// crash copies the journal's files as a kill would leave them.
func crash(t testing.TB, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	return to
}

func TestNoRaceReplayGivesWhatWasAppended(t *testing.T) {
	for _, mode := range []Sync{Always, Interval, None} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir, mode, 1, nil)
			total := 0
			for _, n := range []int{1, 1000, 513, 70_000, 3, 200_000, 512} { // crosses segments
				if err := add(j, total, n); err != nil {
					t.Fatal(err)
				}
				total += n
			}
			crashed := crash(t, dir)
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			for _, d := range []string{crashed, dir} {
				got, err := replay(d, nil)
				if err != nil {
					t.Fatal(err)
				}
				got.mustHold(t, total)
				if len(got.keys) != total || got.found.Keys != uint64(total) || got.found.Torn != 0 {
					t.Errorf("%d keys, %+v, want %d", len(got.keys), got.found, total)
				}
				again, err := replay(d, nil)
				if err != nil || again.found.Next != got.found.Next {
					t.Errorf("second replay: next %d, %v, want %d", again.found.Next, err, got.found.Next)
				}
			}
		})
	}
}

func TestAFollowingProcessContinues(t *testing.T) {
	dir, next, total := t.TempDir(), uint64(1), 0
	for round := range 6 {
		j := open(t, dir, Always, next, nil)
		if err := add(j, total, 1000); err != nil {
			t.Fatal(err)
		}
		total += 1000
		if round%2 == 0 {
			dir = crash(t, dir)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		got, err := replay(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		got.mustHold(t, total)
		next = got.found.Next
	}
}

func TestConcurrentBatchesShareSyncs(t *testing.T) {
	var syncs atomic.Int64
	dir := t.TempDir()
	j := open(t, dir, Always, 1, func(label, _ string) durable.Fault {
		if label == "journal-sync" {
			syncs.Add(1)
		}
		return durable.Fault{}
	})
	const workers, batches, n = 16, 30, 100
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for b := range batches {
				if err := add(j, (w*batches+b)*n, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got, err := replay(crash(t, dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.mustHold(t, workers*batches*n)
	if s := syncs.Load(); s >= workers*batches {
		t.Errorf("%d syncs for %d batches: nothing was shared", s, workers*batches)
	}
}

func TestRotateAndDiscard(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, Always, 1, nil)
	total, from := 0, uint64(1)
	var wg sync.WaitGroup
	stop := make(chan struct{})
	var added atomic.Int64
	wg.Go(func() { // batches go on while segments are rotated
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			if err := add(j, 1_000_000+i*700, 700); err != nil {
				t.Error(err)
				return
			}
			added.Add(700)
		}
	})
	for range 12 {
		if err := add(j, total, 30_000); err != nil {
			t.Fatal(err)
		}
		total += 30_000
		next, err := j.Rotate()
		if err != nil {
			t.Fatal(err)
		}
		if next <= from {
			t.Fatalf("Rotate: next %d after %d", next, from)
		}
		if err := j.Discard(next); err != nil {
			t.Fatal(err)
		}
		from = next
	}
	if err := add(j, total, 5); err != nil {
		t.Fatal(err)
	}
	close(stop)
	wg.Wait()
	got, err := replay(crash(t, dir), func(r *Reading) { r.From = from })
	if err != nil {
		t.Fatal(err)
	}
	for i := total; i < total+5; i++ {
		if !got.keys[key(i)] {
			t.Fatalf("key %d, appended after the last Rotate, is lost", i)
		}
	}
	if got.keys[key(0)] {
		t.Error("a discarded key is still there")
	}
	if j.reserved != 0 {
		t.Errorf("reserved = %d slots after all batches", j.reserved)
	}
}

// The disk fills up at any byte count: a batch is refused whole or kept whole.
func TestFullDisk(t *testing.T) {
	for _, limit := range []int64{0, 100, 64 << 10, 300 << 10, 1<<20 + 5000, 3 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := t.TempDir()
			var full atomic.Bool
			full.Store(true)
			j := open(t, dir, Always, 1, func(label, path string) durable.Fault {
				if !full.Load() || label != "journal-spare-zero" {
					return durable.Fault{}
				}
				if usage(dir) >= limit {
					return durable.Fault{Before: syscall.ENOSPC}
				}
				return durable.Fault{}
			})
			total := 0
			var err error
			for err == nil && total < 1_000_000 {
				if err = add(j, total, 900); err == nil {
					total += 900
				}
			}
			if !errors.Is(err, ErrNoSpace) || !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("after %d keys: %v, want ErrNoSpace", total, err)
			}
			if _, err := j.Rotate(); err != nil && !errors.Is(err, ErrNoSpace) {
				t.Fatal(err)
			}
			full.Store(false)
			j.mu.Lock()
			j.fullAt = j.fullAt.Add(-2 * retrySpace) // as if time had passed
			j.mu.Unlock()
			if err := add(j, total, 900); err != nil {
				t.Fatalf("with space again: %v", err)
			}
			got, err := replay(crash(t, dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			got.mustHold(t, total+900)
			if len(got.keys) != total+900 {
				t.Errorf("%d keys, want %d: a refused batch left some", len(got.keys), total+900)
			}
		})
	}
}

// Where files may not grow beyond a size, segments are as small as they must be.
func TestLimitOnFileSize(t *testing.T) {
	dir := t.TempDir()
	written := map[string]int64{}
	var mu sync.Mutex
	j := open(t, dir, Always, 1, func(label, path string) durable.Fault {
		if label != "journal-spare-zero" {
			return durable.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if written[path] += 1 << 20; written[path] > 1<<20 { // the second piece of a file
			return durable.Fault{Before: syscall.EFBIG}
		}
		return durable.Fault{}
	})
	total := 0
	for range 400 {
		if err := add(j, total, 900); err != nil {
			t.Fatalf("after %d keys: %v", total, err)
		}
		total += 900
	}
	got, err := replay(crash(t, dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	got.mustHold(t, total)
}

func usage(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if info, err := d.Info(); err == nil {
				sum += info.Size()
			}
		}
		return nil
	})
	return sum
}

// Every file operation fails once, before or after it took effect: what was
// acknowledged is there, and nothing is acknowledged after the failure.
func TestEveryOperationFailing(t *testing.T) {
	eio := errors.New("input/output error")
	run := func(dir string, hook func(string, string) durable.Fault) (acked int, from uint64, err error) {
		j := open(t, dir, Always, 1, hook)
		defer j.Close()
		from = 1
		for step := range 40 {
			if err = add(j, acked, 5000); err != nil {
				return acked, from, err
			}
			acked += 5000
			if step%13 == 12 {
				// Not discarded, so that the test can read all of it.
				if _, err = j.Rotate(); err != nil {
					return acked, from, err
				}
			}
		}
		return acked, from, nil
	}
	labels := map[string]int{}
	var mu sync.Mutex
	if _, _, err := run(t.TempDir(), func(label, _ string) durable.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label]++
		return durable.Fault{}
	}); err != nil {
		t.Fatal(err)
	}
	if len(labels) < 9 {
		t.Fatalf("only %v seen", labels)
	}
	for label, count := range labels {
		for _, nth := range []int{1, (count + 1) / 2, count} {
			for _, persisted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%v", label, nth, persisted), func(t *testing.T) {
					t.Parallel()
					dir, seen := t.TempDir(), atomic.Int64{}
					acked, from, err := run(dir, func(l, _ string) durable.Fault {
						if l != label || seen.Add(1) != int64(nth) {
							return durable.Fault{}
						}
						if persisted {
							return durable.Fault{After: eio}
						}
						return durable.Fault{Before: eio}
					})
					// Later ones, and spares made ahead, may fail when nobody waits any more.
					if err == nil && nth == 1 && strings.Contains("journal-write journal-sync journal-header-sync journal-rename journal-syncdir", label) {
						t.Fatalf("no error though %s failed", label)
					}
					got, err := replay(crash(t, dir), func(r *Reading) { r.From = from })
					if err != nil {
						t.Fatal(err)
					}
					got.mustHold(t, acked)
				})
			}
		}
	}
}

func TestStickyFailure(t *testing.T) {
	var broken atomic.Bool
	told := make(chan error, 2)
	j := Open(Options{Dir: t.TempDir(), Sync: Always, Generation: 1, Next: 1, Failed: func(err error) { told <- err },
		FS: durable.FS{Hook: func(label, _ string) durable.Fault {
			if broken.Load() && label == "journal-sync" {
				return durable.Fault{Before: syscall.EIO}
			}
			return durable.Fault{}
		}}})
	defer j.Close()
	if err := add(j, 0, 10); err != nil {
		t.Fatal(err)
	}
	broken.Store(true)
	if err := add(j, 10, 10); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want EIO", err)
	}
	broken.Store(false)
	if err := add(j, 20, 10); !errors.Is(err, syscall.EIO) {
		t.Fatalf("after the failure: got %v, want the same error for good", err)
	}
	if err := <-told; !errors.Is(err, syscall.EIO) {
		t.Errorf("Failed was told %v", err)
	}
}

func TestNoRaceDamage(t *testing.T) {
	dir := t.TempDir()
	j := open(t, dir, Always, 1, nil)
	j.nextSize = 20 << 10 // a small file is quicker to try at every byte
	for i := range 20 {
		if err := add(j, i*50, 50); err != nil {
			t.Fatal(err)
		}
	}
	unsealed := crash(t, dir)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Base(segmentPath("", 1))
	whole, err := os.ReadFile(filepath.Join(unsealed, name))
	if err != nil {
		t.Fatal(err)
	}
	used := headerSize + 20*51*slot
	sealed, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	try := func(data []byte) (reading, error) {
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		return replay(work, func(r *Reading) { r.ReadOnly = true })
	}
	t.Run("truncated at every byte", func(t *testing.T) {
		for cut := range used + 100 {
			got, err := try(whole[:cut])
			records := max(0, cut-headerSize) / (51 * slot)
			got.mustHold(t, min(20, records)*50)
			if cut < used && !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut at %d of %d: %v, want ErrDamaged", cut, used, err)
			}
			if cut >= used+slot && err != nil {
				t.Fatalf("cut at %d behind the records: %v", cut, err)
			}
		}
	})
	t.Run("torn at every byte", func(t *testing.T) { // the last group half written, the file whole
		last := used - 51*slot
		for cut := last; cut < used; cut++ {
			data := append([]byte(nil), whole...)
			clear(data[cut:])
			got, err := try(data)
			if err != nil {
				t.Fatalf("torn at %d: %v", cut, err)
			}
			got.mustHold(t, 19*50)
		}
	})
	t.Run("a bit flipped at every byte", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		last := used - 51*slot
		for at := range used {
			data := append([]byte(nil), whole...)
			data[at] ^= 1 << rng.IntN(8)
			got, err := try(data)
			if at < last && !errors.Is(err, ErrDamaged) {
				t.Fatalf("flipped at %d: %v, want ErrDamaged", at, err)
			}
			for k := range got.keys {
				if k.Hi == 0 || k.Hi > 1000 || k != key(int(k.Hi-1)) {
					t.Fatalf("flipped at %d: an invented key %x", at, k)
				}
			}
			data = append(data[:0], sealed...)
			data[at] ^= 1 << rng.IntN(8)
			if _, err := try(data); !errors.Is(err, ErrDamaged) {
				t.Fatalf("closed cleanly, flipped at %d: %v, want ErrDamaged", at, err)
			}
		}
	})
	t.Run("salvage", func(t *testing.T) {
		data := append([]byte(nil), whole...)
		data[headerSize+5*51*slot+30] ^= 1
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := replay(work, func(r *Reading) { r.Salvage, r.ReadOnly = true, true })
		if err != nil || len(got.keys) != 19*50 || len(got.found.Damage) != 1 {
			t.Fatalf("%d keys, damage %v, %v; want 950 keys and one damage", len(got.keys), got.found.Damage, err)
		}
	})
	t.Run("a segment is missing", func(t *testing.T) {
		d := t.TempDir()
		j := open(t, d, Always, 1, nil)
		for i := range 3 {
			if err := add(j, i*70_000, 70_000); err != nil {
				t.Fatal(err)
			}
		}
		c := crash(t, d)
		if err := os.Remove(segmentPath(c, 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := replay(c, nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("got %v, want ErrDamaged", err)
		}
	})
	t.Run("another generation", func(t *testing.T) {
		got, err := replay(unsealed, func(r *Reading) { r.Generation, r.ReadOnly = 2, true })
		if err != nil || len(got.keys) != 0 {
			t.Fatalf("older: %d keys, %v; want none", len(got.keys), err)
		}
		if _, err := replay(unsealed, func(r *Reading) { r.Generation, r.ReadOnly = 0, true }); !errors.Is(err, ErrDamaged) {
			t.Fatalf("newer: %v, want ErrDamaged", err)
		}
	})
}

func FuzzReplay(f *testing.F) {
	dir := f.TempDir()
	j := open(f, dir, Always, 1, nil)
	for i := range 3 {
		if err := add(j, i*5, 5); err != nil {
			f.Fatal(err)
		}
	}
	data, err := os.ReadFile(segmentPath(dir, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:headerSize+400])
	f.Fuzz(func(t *testing.T, data []byte) {
		d := t.TempDir()
		if err := os.WriteFile(segmentPath(d, 1), data, 0o600); err != nil {
			t.Fatal(err)
		}
		first, err := replay(d, func(r *Reading) { r.ReadOnly = true })
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("%v: want ErrDamaged", err)
			}
			return
		}
		salvaged, err := replay(d, func(r *Reading) { r.ReadOnly, r.Salvage = true, true })
		if err != nil || len(salvaged.keys) != len(first.keys) || len(salvaged.found.Damage) > 0 {
			t.Fatalf("salvage of a sound file: %d keys, %v, %v; want %d", len(salvaged.keys), salvaged.found.Damage, err, len(first.keys))
		}
	})
}
