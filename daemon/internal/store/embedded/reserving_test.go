package embedded

import (
	"bytes"
	"context"
	"encoding/binary"
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

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

var jobs = engine.Spec{ID: 8, Name: "jobs", Kind: "exact", Params: configs.Exact{}}

// leasing is a store with a filter, of either kind, whose items can be reserved.
type leasing struct {
	engine.Reserving
	store *Store
	dir   string // of the filter
	file  string
}

func (l leasing) Memory() uint64 { return l.Reserving.(engine.Growing).Memory() }

func (l leasing) disk() *diskFilter { return l.store.sets[filepath.Base(l.dir)[2:]] }

func openLeasing(t testing.TB, spec engine.Spec, opt Options) (leasing, error) {
	t.Helper()
	of, err := kinds.Of(spec.Kind)
	if err != nil {
		t.Fatal(err)
	}
	l := leasing{dir: filepath.Join(opt.Dir, "filters", folderName(spec)), file: of.File}
	if l.store, err = Open(opt); err != nil {
		return l, err
	}
	t.Cleanup(func() { _ = l.store.Close() })
	sets, err := l.store.Load(context.Background())
	if err != nil {
		return l, errors.Join(err, l.store.Close())
	}
	set := sets[spec]
	if set == nil {
		if set, err = l.store.Create(context.Background(), spec, storetest.Identity()); err != nil {
			return l, err
		}
	}
	l.Reserving = set.(engine.Reserving)
	return l, nil
}

func mustOpenLeasing(t testing.TB, spec engine.Spec, opt Options) leasing {
	t.Helper()
	l, err := openLeasing(t, spec, opt)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func eachLeasing(t *testing.T, f func(*testing.T, engine.Spec)) {
	for _, spec := range []engine.Spec{jobs, news} {
		t.Run(spec.Kind, func(t *testing.T) {
			t.Parallel()
			f(t, spec)
		})
	}
}

func (l leasing) reserve(t testing.TB, id engine.Reservation, from, n int, lease time.Duration) {
	t.Helper()
	got, err := l.Reserve(context.Background(), id, storetest.Keys(l, from, n), lease, make([]bool, n))
	if err != nil || got.Fresh != n {
		t.Fatalf("%+v of %d are reserved: %v", got, n, err)
	}
}

func (l leasing) commit(t testing.TB, id engine.Reservation, keys []bloom.Hash, done, lost int) {
	t.Helper()
	got, err := l.Commit(context.Background(), id, keys, 0, make([]bool, len(keys)))
	if want := (engine.Settled{Done: done, Lost: lost}); err != nil || got != want {
		t.Fatalf("%+v are committed, want %+v: %v", got, want, err)
	}
}

// state tells for each item whether it is new, and for each reservation what a release of all of
// it does; the store must not be used afterwards.
func (l leasing) state(t testing.TB, items int, ids ...engine.Reservation) string {
	t.Helper()
	fresh := make([]bool, items)
	if err := l.Has(context.Background(), storetest.Keys(l, 0, items), fresh); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, is := range fresh {
		text.WriteByte(map[bool]byte{true: 'x', false: '.'}[is])
	}
	for _, id := range ids {
		got, err := l.Release(context.Background(), id, nil, nil)
		fmt.Fprintf(&text, " %+v", got)
		if err != nil {
			text.WriteString(" unknown")
		}
	}
	return text.String()
}

// A journal that is cut at any byte, as by a crash, has the effects of all calls up to some call.
func TestNoRaceTornReservations(t *testing.T) {
	eachLeasing(t, func(t *testing.T, spec engine.Spec) {
		const items = 12
		dir, clock := t.TempDir(), newHands()
		opt := timedOptions(dir, clock)
		opt.SegmentBytes = 8 << 10
		l := mustOpenLeasing(t, spec, opt)
		a, b := engine.NewReservation(), engine.NewReservation()
		ctx, keys := context.Background(), func(from, n int) []bloom.Hash { return storetest.Keys(l, from, n) }
		var states []string
		did := func() {
			t.Helper()
			copied := mustOpenLeasing(t, spec, timedOptions(crash(t, dir), clock))
			states = append(states, copied.state(t, items, a, b))
			_ = copied.store.Close()
		}
		l.reserve(t, engine.NewReservation(), 50, 1, time.Millisecond) // so that the file has the version with reservations
		did()
		l.reserve(t, a, 0, 5, time.Minute)
		did()
		l.commit(t, a, keys(1, 2), 2, 0)
		did()
		l.reserve(t, b, 5, 4, time.Hour)
		did()
		if _, err := l.Release(ctx, b, keys(5, 1), make([]bool, 1)); err != nil {
			t.Fatal(err)
		}
		did()
		if _, err := l.Reserving.(engine.Forgetful).Forget(ctx, keys(1, 3)); err != nil {
			t.Fatal(err)
		}
		did()
		if _, err := l.Add(ctx, keys(0, 12), make([]bool, 12)); err != nil {
			t.Fatal(err)
		}
		did()
		whole := crash(t, dir)
		names := journals(t, filepath.Dir(filepath.Dir(filepath.Join(whole, "filters", folderName(spec)))))
		path := names[len(names)-1]
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		end := len(bytes.TrimRight(text, "\x00")) + 16 // the last slot may end in zeroes
		seen := map[int]bool{}
		at := 0
		for cut := 64; cut <= end; cut += 7 { // steps of 7 reach every byte of a slot, in some record
			torn := append(slices.Clone(text[:cut]), bytes.Repeat([]byte{0xa5}, len(text)-cut)...)
			copied := crash(t, whole)
			rel, _ := filepath.Rel(whole, path)
			if err := os.WriteFile(filepath.Join(copied, rel), torn, 0o600); err != nil {
				t.Fatal(err)
			}
			again := mustOpenLeasing(t, spec, timedOptions(copied, clock))
			got := again.state(t, items, a, b)
			_ = again.store.Close()
			_ = os.RemoveAll(copied)
			found := slices.Index(states[at:], got)
			if found < 0 {
				t.Fatalf("cut at %d of %d: %s\nis none of %q", cut, end, got, states[at:])
			}
			at += found
			seen[at] = true
		}
		if len(seen) != len(states) || at != len(states)-1 {
			t.Errorf("of %d states %v were met", len(states), seen)
		}
	})
}

// The file says that it may have reservations before it has one, so that an older daemon refuses it.
func TestTheFileSaysThatItReserves(t *testing.T) {
	eachLeasing(t, func(t *testing.T, spec engine.Spec) {
		dir := t.TempDir()
		l := mustOpenLeasing(t, spec, options(dir))
		version := func(dir string) uint32 {
			text, err := os.ReadFile(filepath.Join(dir, "filters", folderName(spec), l.file))
			if err != nil {
				t.Fatal(err)
			}
			return binary.LittleEndian.Uint32(text[8:])
		}
		if _, err := l.Add(context.Background(), storetest.Keys(l, 0, 10), make([]bool, 10)); err != nil {
			t.Fatal(err)
		}
		if got := version(dir); got != 1 {
			t.Errorf("format %d before anything is reserved", got)
		}
		a := engine.NewReservation()
		l.reserve(t, a, 10, 10, time.Hour)
		if got := version(dir); got != 2 {
			t.Errorf("format %d with a reservation", got)
		}
		if err := l.disk().checkpoint(); err != nil {
			t.Fatal(err)
		}
		again := mustOpenLeasing(t, spec, options(crash(t, dir)))
		again.commit(t, a, storetest.Keys(l, 5, 10), 5, 5)
		if _, err := again.Reserve(context.Background(), a, storetest.Keys(l, 30, 1), time.Hour, make([]bool, 1)); err != nil || again.disk().journal.Bytes() > 4096 {
			t.Errorf("%v; the file that has reservations is rewritten", err)
		}
	})
}

// A lease ends on time: by the machine's clock while no daemon runs, and regardless of changes
// to that clock while one runs.
func TestLeasesAndClocks(t *testing.T) {
	eachLeasing(t, func(t *testing.T, spec engine.Spec) {
		for _, inFile := range []bool{false, true} {
			for _, step := range []time.Duration{0, -time.Hour, time.Hour} {
				dir, clock := t.TempDir(), newHands()
				l := mustOpenLeasing(t, spec, timedOptions(dir, clock))
				a := engine.NewReservation()
				l.reserve(t, a, 0, 10, time.Minute)
				clock.set(step)
				clock.pass(20 * time.Second)
				if inFile || l.disk().due() { // checkpointDue finds this out, too
					if err := l.disk().checkpoint(); err != nil {
						t.Fatal(err)
					}
				}
				l.disk().checkpointing.Lock() // the store itself also rewrites the file after the clock has stepped
				copied := crash(t, dir)
				l.disk().checkpointing.Unlock()
				clock = clock.restarted()
				clock.pass(40*time.Second - time.Millisecond)
				l = mustOpenLeasing(t, spec, timedOptions(copied, clock))
				if got := l.state(t, 10); got != ".........." {
					t.Errorf("step %v, in the file %v: new before the end: %s", step, inFile, got)
				}
				clock.pass(time.Millisecond)
				if got := l.state(t, 10, a); got != "xxxxxxxxxx {Done:10 Lost:0}" {
					t.Errorf("step %v, in the file %v: at the end: %s", step, inFile, got)
				}
				_ = l.store.Close()
			}
		}
	})
}

// Expired reservations leave the memory even if nobody asks for them.
func TestReservationsLeaveTheMemory(t *testing.T) {
	eachLeasing(t, func(t *testing.T, spec engine.Spec) {
		clock := newHands()
		l := mustOpenLeasing(t, spec, timedOptions(t.TempDir(), clock))
		before := l.Memory()
		a := engine.NewReservation()
		l.reserve(t, a, 0, 1000, time.Hour)
		if got := l.Memory(); got < before+50_000 {
			t.Errorf("%d bytes with 1000 reserved items, %d before", got, before)
		}
		clock.pass(2 * time.Hour)
		l.store.sweep()
		if got := l.Memory(); got > before {
			t.Errorf("%d bytes, %d before", got, before)
		}
		if _, err := l.Commit(context.Background(), a, nil, 0, nil); !errors.Is(err, engine.ErrNoReservation) {
			t.Errorf("commit: %v", err)
		}
	})
}

// Each file operation fails, before or after it took effect: reserved items are held,
// committed items are seen, and released items are new.
func TestNoRaceEveryOperationFailingReserving(t *testing.T) {
	eio := errors.New("input/output error")
	type acked struct{ reserved, committed, released int }
	id := func(n int) engine.Reservation { return engine.Reservation{Hi: 9, Lo: uint64(n + 1)} }
	const each = 300
	run := func(t *testing.T, dir string, hook func(string, string) disk.Fault) (done acked) {
		opt := options(dir)
		opt.FS = disk.FS{Hook: hook}
		l, err := openLeasing(t, jobs, opt)
		if l.store != nil {
			defer l.store.Close()
		}
		if err != nil {
			return done
		}
		ctx := context.Background()
		for round := range 4 {
			keys := storetest.Keys(l, round*each, each)
			if _, err := l.Reserve(ctx, id(round), keys, time.Hour, make([]bool, each)); err != nil {
				return done
			}
			done.reserved++
			if _, err := l.Commit(ctx, id(round), keys[:100], 0, make([]bool, 100)); err != nil {
				return done
			}
			done.committed++
			if _, err := l.Release(ctx, id(round), keys[100:200], make([]bool, 100)); err != nil {
				return done
			}
			done.released++
			if round < 3 {
				if err := l.disk().checkpoint(); err != nil && l.disk().journal.Full() != nil {
					return done
				}
				l.disk().retryNow()
			}
		}
		return done
	}
	labels := map[string]bool{}
	var mu sync.Mutex
	if got := run(t, t.TempDir(), func(label, _ string) disk.Fault {
		mu.Lock()
		defer mu.Unlock()
		labels[label] = true
		return disk.Fault{}
	}); got != (acked{4, 4, 4}) {
		t.Fatalf("%+v", got)
	}
	for label := range labels {
		for _, nth := range []int64{1, 2, 3, 4} {
			for _, persisted := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s-%d-%v", label, nth, persisted), func(t *testing.T) {
					t.Parallel()
					var seen atomic.Int64
					dir := t.TempDir()
					done := run(t, dir, func(l, _ string) disk.Fault {
						switch {
						case l != label || seen.Add(1) != nth:
							return disk.Fault{}
						case persisted:
							return disk.Fault{After: eio}
						default:
							return disk.Fault{Before: eio}
						}
					})
					l := mustOpenLeasing(t, jobs, options(crash(t, dir)))
					for round := range done.reserved {
						got := l.state(t, (round+1)*each)[round*each:]
						if round < done.committed && strings.Contains(got[:100], "x") {
							t.Errorf("%+v: round %d: what is committed is new", done, round)
						}
						if round < done.released && strings.Contains(got[100:200], ".") {
							t.Errorf("%+v: round %d: what is released is not new", done, round)
						}
						if strings.Contains(got[200:], "x") {
							t.Errorf("%+v: round %d: what is reserved is new", done, round)
						}
						if round < done.committed {
							l.commit(t, id(round), storetest.Keys(l, round*each, 100), 100, 0)
						}
						if round < done.released {
							l.commit(t, id(round), nil, 200, 0)
						}
					}
				})
			}
		}
	}
}
