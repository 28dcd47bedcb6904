package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// At whatever byte count the disk fills up, a batch is refused whole or kept whole.
func TestFullDisk(t *testing.T) {
	for _, limit := range []int64{0, 100, 64 << 10, 300 << 10, 1<<20 + 5000, 3 << 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			dir := t.TempDir()
			var full atomic.Bool
			full.Store(true)
			j := open(t, dir, Always, 1, func(label, path string) disk.Fault {
				if !full.Load() || label != "journal-spare-zero" {
					return disk.Fault{}
				}
				if usage(dir) >= limit {
					return disk.Fault{Before: syscall.ENOSPC}
				}
				return disk.Fault{}
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

// Where the size of a file is limited, segments are as small as they must be.
func TestLimitOnFileSize(t *testing.T) {
	dir := t.TempDir()
	written := map[string]int64{}
	var mu sync.Mutex
	j := open(t, dir, Always, 1, func(label, path string) disk.Fault {
		if label != "journal-spare-zero" {
			return disk.Fault{}
		}
		mu.Lock()
		defer mu.Unlock()
		if written[path] += 1 << 20; written[path] > 1<<20 { // the second piece of a file
			return disk.Fault{Before: syscall.EFBIG}
		}
		return disk.Fault{}
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
// acknowledged is kept, and nothing is acknowledged after the failure.
func TestEveryOperationFailing(t *testing.T)       { everyOperationFailing(t, 200) }
func TestNoRaceEveryOperationFailing(t *testing.T) { everyOperationFailing(t, 5000) }

func everyOperationFailing(t *testing.T, batch int) {
	eio := errors.New("input/output error")
	run := func(dir string, hook func(string, string) disk.Fault) (acked int, from uint64, err error) {
		j := open(t, dir, Always, 1, hook)
		defer j.Close()
		from = 1
		for step := range 40 {
			if err = add(j, acked, batch); err != nil {
				return acked, from, err
			}
			acked += batch
			if step%13 == 12 {
				// Segments are not discarded, so that the test can read all of them.
				if _, err = j.Rotate(); err != nil {
					return acked, from, err
				}
			}
		}
		return acked, from, nil
	}
	labels := map[string]int{}
	var mu sync.Mutex
	if _, _, err := run(t.TempDir(), func(label, _ string) disk.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label]++
		return disk.Fault{}
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
					acked, from, err := run(dir, func(l, _ string) disk.Fault {
						if l != label || seen.Add(1) != int64(nth) {
							return disk.Fault{}
						}
						if persisted {
							return disk.Fault{After: eio}
						}
						return disk.Fault{Before: eio}
					})
					// Later ones, and those on spares made ahead, may fail when no caller waits any more.
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
		FS: disk.FS{Hook: func(label, _ string) disk.Fault {
			if broken.Load() && label == "journal-sync" {
				return disk.Fault{Before: syscall.EIO}
			}
			return disk.Fault{}
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
	j.nextSize = 8 << 10 // a small file is quicker to try at every byte
	const records, keys = 12, 20
	const length = (1 + keys) * slot // of a record
	for i := range records {
		if err := add(j, i*keys, keys); err != nil {
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
	used := headerSize + records*length
	sealed, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	// One file is overwritten: if it were truncated first, ext4 would flush each version at its close.
	file, err := os.Create(filepath.Join(work, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	try := func(data []byte) (reading, error) {
		if _, err := file.WriteAt(data, 0); err != nil {
			t.Fatal(err)
		}
		if err := file.Truncate(int64(len(data))); err != nil {
			t.Fatal(err)
		}
		return replay(work, func(r *Reading) { r.ReadOnly = true })
	}
	t.Run("truncated at every byte", func(t *testing.T) {
		for cut := range used + 100 {
			got, err := try(whole[:cut])
			before := max(0, cut-headerSize) / length
			got.mustHold(t, min(records, before)*keys)
			if cut < used && !errors.Is(err, ErrDamaged) {
				t.Fatalf("cut at %d of %d: %v, want ErrDamaged", cut, used, err)
			}
			if cut >= used+slot && err != nil {
				t.Fatalf("cut at %d behind the records: %v", cut, err)
			}
		}
	})
	t.Run("torn at every byte", func(t *testing.T) { // the last group half written, the file whole
		last := used - length
		for cut := last; cut < used; cut++ {
			data := append([]byte(nil), whole...)
			clear(data[cut:])
			got, err := try(data)
			if err != nil {
				t.Fatalf("torn at %d: %v", cut, err)
			}
			got.mustHold(t, (records-1)*keys)
		}
	})
	t.Run("a bit flipped at every byte", func(t *testing.T) {
		rng := rand.New(rand.NewPCG(3, 4))
		last := used - length
		for at := range used {
			data := append([]byte(nil), whole...)
			data[at] ^= 1 << rng.IntN(8)
			got, err := try(data)
			if at < last && !errors.Is(err, ErrDamaged) {
				t.Fatalf("flipped at %d: %v, want ErrDamaged", at, err)
			}
			for k := range got.keys {
				if k.Hi == 0 || k.Hi > records*keys || k != key(int(k.Hi-1)) {
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
		data[headerSize+5*length+30] ^= 1
		if err := os.WriteFile(filepath.Join(work, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := replay(work, func(r *Reading) { r.Salvage, r.ReadOnly = true, true })
		if err != nil || len(got.keys) != (records-1)*keys || len(got.found.Damage) != 1 {
			t.Fatalf("%d keys, damage %v, %v; want %d keys and one damage", len(got.keys), got.found.Damage, err, (records-1)*keys)
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
