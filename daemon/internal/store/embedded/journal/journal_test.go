package journal

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

func key(i int) bloom.Hash { return bloom.Hash{Hi: uint64(i) + 1, Lo: ^uint64(i)} }

func open(t testing.TB, dir string, mode Sync, next uint64, hook func(string, string) disk.Fault) *Journal {
	t.Helper()
	j := Open(Options{Dir: dir, FS: disk.FS{Hook: hook}, Sync: mode, Generation: 1, Next: next, Log: slog.New(slog.DiscardHandler)})
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
	for len(keys) > 0 { // as bloom.Map does
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
	const workers, batches, n = 16, 30, 100
	var syncs atomic.Int64
	dir := t.TempDir()
	var j *Journal
	j = open(t, dir, Always, 1, func(label, _ string) disk.Fault {
		if label == "journal-sync" && syncs.Add(1) == 1 { // it lasts until all others have arrived
			for came := uint64(0); came < workers*n; runtime.Gosched() {
				j.mu.Lock()
				came = j.appended
				j.mu.Unlock()
			}
		}
		return disk.Fault{}
	})
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
	// The first batch of each worker: one or several share the first sync, all others the second.
	if s := syncs.Load(); s > workers*(batches-1)+2 {
		t.Errorf("%d syncs for %d batches: those that came meanwhile did not share one", s, workers*batches)
	}
}

// Where batches wait for no sync, the disk has most of a segment before the segment ends.
func TestSegmentsAreWrittenAhead(t *testing.T) {
	for mode, want := range map[Sync]bool{Always: false, Interval: true, None: true} {
		dir := t.TempDir()
		j := open(t, dir, mode, 1, nil)
		const batches, n = 400, 500 // 3.2 MB, in segments of 1, 2 and 4 MiB
		most := int64(0)
		for i := range batches {
			if err := add(j, i*n, n); err != nil {
				t.Fatal(err)
			}
			most = max(most, j.cur.begun)
			if behind := j.cur.off - j.cur.begun; want && (behind < 0 || behind > ahead+n*slot*2) {
				t.Fatalf("%v, batch %d: %d of %d bytes are begun with", mode, i, j.cur.begun, j.cur.off)
			}
		}
		if got := most > 0; got != want {
			t.Errorf("%v: written ahead: %v, want %v", mode, got, want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		if got, err := replay(dir, nil); err != nil || len(got.keys) != batches*n {
			t.Errorf("%v: %d keys, %v; want %d", mode, len(got.keys), err, batches*n)
		}
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

// Spares that a journal before this one could not remove are in nobody's way.
func TestSparesThatWereLeft(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint(sparePrefix, n+1)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	j := open(t, dir, Always, 1, nil)
	if err := add(j, 0, 10); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
