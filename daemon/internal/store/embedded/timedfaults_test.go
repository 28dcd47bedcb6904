package embedded

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

// Each file operation fails, before or after it took effect: acknowledged items are restored
// with their deadlines.
func TestNoRaceEveryOperationFailingTimed(t *testing.T) {
	eio := errors.New("input/output error")
	run := func(dir string, clock *hands, hook func(string, string) disk.Fault) (acked int, err error) {
		opt := timedOptions(dir, clock)
		opt.FS = disk.FS{Hook: hook}
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
				set.retryNow()
			}
		}
		return acked, nil
	}
	labels := map[string]bool{}
	var mu sync.Mutex
	if _, err := run(t.TempDir(), newHands(), func(label, _ string) disk.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label] = true
		return disk.Fault{}
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
					acked, _ := run(dir, clock, func(l, _ string) disk.Fault {
						switch {
						case l != label || seen.Add(1) != nth:
							return disk.Fault{}
						case persisted:
							return disk.Fault{After: eio}
						default:
							return disk.Fault{Before: eio}
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

// The journal is cut at any length, as a crash leaves it: whole batches are restored, and no
// item has a different deadline.
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
	state, err := os.ReadFile(filepath.Join(filepath.Dir(path), stateName))
	if err != nil {
		t.Fatal(err)
	}
	records := 64 + batches*16*(1+2*each)
	for cut := 64; cut <= records+16; cut += 7 { // 7 reaches every byte of a slot, in some record
		torn := append(slices.Clone(whole[:cut]), bytes.Repeat([]byte{0xa5}, len(whole)-cut)...)
		if err := os.WriteFile(path, torn, 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, os.WriteFile(filepath.Join(filepath.Dir(path), stateName), state, 0o600)) // of the crash, not of the stop since
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

// A bit flipped in any byte of a file of entries, and a cut to any length, is detected.
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

// A repair leaves out a damaged record of the journal and keeps all others.
func TestRepairTimedJournal(t *testing.T) {
	dir, clock := t.TempDir(), newHands()
	opt := timedOptions(dir, clock)
	opt.Clock = timing.SystemClock() // the clock that Verify uses
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

// kindReads reads a file as the kind of the filter does.
func kindReads(spec engine.Spec, path string, clock *hands) (kind.Memory, uint64, error) {
	of, err := kindOf(spec)
	if err != nil {
		return nil, 0, err
	}
	return of.Read(spec, path, clock.clock())
}

func size(t testing.TB, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}
