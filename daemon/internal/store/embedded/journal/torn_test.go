package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Any of the pages written between two syncs may reach the disk: a seal that reached it before
// a record would make an unfinished record look like damage.
func TestRecordsAreSyncedBeforeTheirSeal(t *testing.T) {
	for _, mode := range []Sync{Always, Interval, None} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			var mu sync.Mutex
			var done []string
			j := open(t, t.TempDir(), mode, 1, func(label, _ string) disk.Fault {
				mu.Lock()
				defer mu.Unlock()
				if slices.Contains([]string{"journal-write", "journal-sync", "journal-seal", "journal-rename"}, label) {
					done = append(done, label)
				}
				return disk.Fault{}
			})
			for i := range 5 { // in segments of 65,000 keys
				if err := add(j, i*50_000, 50_000); err != nil {
					t.Fatal(err)
				}
			}
			if err := j.Close(); err != nil {
				t.Fatal(err)
			}
			seals := 0
			for i, label := range done {
				if label != "journal-seal" {
					continue
				}
				seals++
				if done[i-1] != "journal-sync" {
					t.Fatalf("seal %d follows a %s, not a sync: %v", seals, done[i-1], done)
				}
			}
			if seals < 3 {
				t.Fatalf("%d segments sealed, want some", seals)
			}
		})
	}
}

// lose overwrites part of a segment with zeroes, as if those pages had never reached the disk.
func lose(t *testing.T, path string, from, to int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	clear(data[from:to])
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// older makes a segment look as if an older version had written it.
func older(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h, err := decodeHeader(data)
	if err != nil {
		t.Fatal(err)
	}
	h.ordered = false
	copy(data, h.encode())
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTornRecordBeforeTheSeal(t *testing.T) {
	const batch = 600 * slot // with its header, more than two pages
	sealed := t.TempDir()
	j := open(t, sealed, Always, 1, nil)
	for i := range 4 {
		if err := add(j, i*600, 600); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	last := headerSize + 3*(batch+slot)
	for name, part := range map[string][2]int{
		"the page of its header": {last, 32 << 10},
		"a page of its keys":     {last + 4096, last + 8192},
		"all of it":              {last, last + slot + batch},
	} {
		t.Run(name, func(t *testing.T) {
			dir := crash(t, sealed)
			path := segmentPath(dir, 1)
			lose(t, path, part[0], part[1])
			if _, err := replay(dir, nil); !errors.Is(err, ErrDamaged) {
				t.Fatalf("of this version: %v, want ErrDamaged: the seal promises that all is there", err)
			}
			older(t, path)
			got, err := replay(dir, nil)
			if err != nil {
				t.Fatalf("of an older version: %v", err)
			}
			got.mustHold(t, 1800)
			if got.found.Torn == 0 {
				t.Error("nothing is called torn")
			}
			mustGoOn(t, dir, got)
		})
	}
	t.Run("not the last record", func(t *testing.T) {
		dir := crash(t, sealed)
		path := segmentPath(dir, 1)
		lose(t, path, last-batch, last-batch+4096)
		older(t, path)
		if _, err := replay(dir, nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("got %v, want ErrDamaged", err)
		}
	})
	t.Run("not the last segment", func(t *testing.T) {
		dir := crash(t, sealed)
		j := open(t, dir, Always, 2, nil)
		if err := add(j, 2400, 10); err != nil {
			t.Fatal(err)
		}
		path := segmentPath(dir, 1)
		lose(t, path, last+4096, last+8192)
		older(t, path)
		if _, err := replay(crash(t, dir), nil); !errors.Is(err, ErrDamaged) {
			t.Fatalf("got %v, want ErrDamaged", err)
		}
	})
}

// mustGoOn requires a second start to find what the first one found, and so a third start
// after more has been written.
func mustGoOn(t *testing.T, dir string, first reading) {
	t.Helper()
	for round := range 2 {
		got, err := replay(crash(t, dir), nil)
		if err != nil {
			t.Fatalf("start %d after it: %v", round+1, err)
		}
		for k := range first.keys {
			if !got.keys[k] {
				t.Fatalf("start %d after it has lost a key", round+1)
			}
		}
		j := open(t, dir, Always, got.found.Next, nil)
		if err := add(j, 1_000_000+round*10, 10); err != nil {
			t.Fatal(err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Any of the pages of a batch that was never acknowledged may have reached the disk, however large the batch
// was: that is no damage.
func TestTornBatchOfManyBlocks(t *testing.T) {
	const n = 3 * blockBytes / slot
	dir := t.TempDir()
	j := open(t, dir, Always, 1, nil)
	for i := range 2 {
		if err := add(j, i*n, n); err != nil {
			t.Fatal(err)
		}
	}
	last := headerSize + (n+1)*slot
	for name, at := range map[string]int{"the page of its header": last, "one of the first block": last + blockBytes/2, "one of the second": last + 3*blockBytes/2, "one of the last": last + n*slot - 8192} {
		t.Run(name, func(t *testing.T) {
			dir := crash(t, dir)
			lose(t, segmentPath(dir, 1), at, at+4096)
			got, err := replay(dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			got.mustHold(t, n)
			mustGoOn(t, dir, got)
		})
	}
}

// Without a sync after each record, a power cut may lose any of their pages.
func TestHolesAfterAPowerCut(t *testing.T) {
	for _, mode := range []Sync{Interval, None} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir, mode, 1, nil)
			const records, n = 20, 300
			for i := range records {
				if err := add(j, i*n, n); err != nil {
					t.Fatal(err)
				}
			}
			for name, lost := range map[string][]int{
				"one": {4}, "two": {4, 9}, "many": {1, 3, 4, 11, 17}, "the first": {0}, "the last": {19}, "first, last and between": {0, 7, 19},
			} {
				t.Run(name, func(t *testing.T) {
					dir := crash(t, dir)
					for _, i := range lost {
						at := headerSize + i*(n+1)*slot
						lose(t, segmentPath(dir, 1), at, at+(n+1)*slot)
					}
					got, err := replay(dir, nil)
					if err != nil {
						t.Fatal(err)
					}
					if want := (records - len(lost)) * n; len(got.keys) != want {
						t.Errorf("%d keys, want %d", len(got.keys), want)
					}
					mustGoOn(t, dir, got)
				})
			}
		})
	}
}
