package journal

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

const testParts = 16

func openEntries(t testing.TB, dir string, hook func(string, string) disk.Fault) *Journal {
	t.Helper()
	j := Open(Options{
		Dir: dir, FS: disk.FS{Hook: hook}, Generation: 1, Next: 1, Log: slog.New(slog.DiscardHandler), Width: 2, Parts: testParts,
	})
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// value is the value that belongs to key i.
func value(i int) bloom.Hash { return bloom.Hash{Hi: uint64(i) * 3, Lo: uint64(i) * 5} }

// addEntries appends entries from..from+n-1 as one batch, in parts of any size.
func addEntries(j *Journal, from, n int) error {
	if err := j.Reserve(n); err != nil {
		return err
	}
	defer j.Release(n)
	for part := range testParts {
		var slots []bloom.Hash
		for i := from + n*part/testParts; i < from+n*(part+1)/testParts; i++ {
			slots = append(slots, key(i), value(i))
		}
		j.AppendEntries(slots)
	}
	return j.Wait()
}

func replayEntries(dir string, change func(*Reading)) (map[bloom.Hash]bloom.Hash, Found, error) {
	got := map[bloom.Hash]bloom.Hash{}
	r := Reading{Dir: dir, Generation: 1, From: 1, Width: 2, Apply: func(slots []bloom.Hash) {
		for i := 0; i < len(slots); i += 2 {
			got[slots[i]] = slots[i+1]
		}
	}}
	if change != nil {
		change(&r)
	}
	found, err := Replay(r)
	return got, found, err
}

func mustHoldEntries(t testing.TB, got map[bloom.Hash]bloom.Hash, n int) {
	t.Helper()
	if len(got) != n {
		t.Errorf("%d entries, want %d", len(got), n)
	}
	for i := range n {
		if got[key(i)] != value(i) {
			t.Fatalf("entry %d of %d is %v, want %v", i, n, got[key(i)], value(i))
		}
	}
}

// Entries of two slots stay whole where groups are split between segments.
func TestEntriesStayWhole(t *testing.T) {
	dir := t.TempDir()
	j := openEntries(t, dir, nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 60 {
				n := 1 + rand.IntN(3000)
				if err := addEntries(j, int(next.Add(int64(n)))-n, n); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	total := int(next.Load())
	crashed := crash(t, dir)
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, d := range []string{crashed, dir} {
		got, found, err := replayEntries(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustHoldEntries(t, got, total)
		if found.Keys != uint64(total) || found.Segments < 3 {
			t.Errorf("%+v, want %d entries in several segments", found, total)
		}
	}
	if _, _, err := replayEntries(dir, func(r *Reading) { r.Width = 1 }); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "entries have 2 slots") {
		t.Errorf("read as keys: %v", err)
	}
}

// A later entry of a key is replayed later, even if other callers append at the same time.
func TestEntriesKeepTheirOrder(t *testing.T) {
	dir := t.TempDir()
	j := openEntries(t, dir, nil)
	var mu sync.Mutex // like the lock under which keys become visible
	last := uint64(0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 500 {
				if err := j.Reserve(1); err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				last++
				j.AppendEntries([]bloom.Hash{key(0), {Hi: last}})
				mu.Unlock()
				if err := j.Wait(); err != nil {
					t.Error(err)
				}
				j.Release(1)
			}
		})
	}
	wg.Wait()
	got, _, err := replayEntries(crash(t, dir), nil)
	if err != nil || got[key(0)].Hi != last {
		t.Errorf("the last value is %d, want %d; %v", got[key(0)].Hi, last, err)
	}
}

func TestEntriesOnAFullDisk(t *testing.T) {
	for _, limit := range []int64{100, 64 << 10, 300 << 10, 1<<20 + 5000, 3 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			var full atomic.Bool
			full.Store(true)
			j := openEntries(t, dir, func(label, _ string) disk.Fault {
				if full.Load() && label == "journal-spare-zero" && usage(dir) >= limit {
					return disk.Fault{Before: syscall.ENOSPC}
				}
				return disk.Fault{}
			})
			total := 0
			var err error
			for err == nil {
				n := 1 + rand.IntN(1500)
				if err = addEntries(j, total, n); err == nil {
					total += n
				}
			}
			if !errors.Is(err, ErrNoSpace) {
				t.Fatalf("after %d entries: %v, want ErrNoSpace", total, err)
			}
			full.Store(false)
			j.mu.Lock()
			j.fullAt = time.Time{}
			j.mu.Unlock()
			if err := addEntries(j, total, 900); err != nil {
				t.Fatalf("with space again: %v", err)
			}
			got, _, err := replayEntries(crash(t, dir), nil)
			if err != nil {
				t.Fatal(err)
			}
			mustHoldEntries(t, got, total+900)
			if j.reserved != 0 {
				t.Errorf("reserved = %d slots after all batches", j.reserved)
			}
		})
	}
}

// Entries of any width that fill many blocks come back whole and in their order, and with a segment's end
// anywhere between them.
func TestEntriesOfManyBlocks(t *testing.T) {
	for _, width := range []int{1, 2, 3, 7} {
		dir := t.TempDir()
		opt := Options{Dir: dir, Generation: 1, Next: 1, Log: slog.New(slog.DiscardHandler), Width: width, FirstSegment: 3*blockBytes/2 + slot}
		j := Open(opt)
		var want []bloom.Hash
		for _, n := range []int{1, 5 * blockBytes / slot / width, 3, 2*blockBytes/slot + 1} {
			if err := j.Reserve(n); err != nil {
				t.Fatal(err)
			}
			var slots []bloom.Hash
			for i := range n * width {
				slots = append(slots, key(len(want)+i))
			}
			if want = append(want, slots...); width == 1 {
				fresh := make([]bool, n)
				for i := range fresh {
					fresh[i] = true
				}
				j.Append(slots, fresh)
			} else {
				j.AppendEntries(slots)
			}
			if err := j.Wait(); err != nil {
				t.Fatal(err)
			}
			j.Release(n)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		var got []bloom.Hash
		_, err := Replay(Reading{Dir: dir, Generation: 1, From: 1, Width: width, Apply: func(slots []bloom.Hash) { got = append(got, slots...) }})
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("entries of %d slots: %d slots come back of %d, %v", width, len(got), len(want), err)
		}
	}
}
