package backup

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/mongotest"
)

// rig is a Copier over a store on disk and a real archive. step is called at each of the
// archive's steps.
type rig struct {
	*Copier
	t        *testing.T
	registry *prometheus.Registry
	uri      string
	name     string // of the database

	mu   sync.Mutex
	step func(string) error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "always", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, registry: prometheus.NewRegistry(), uri: mongotest.Shared(t).URI(), name: "urifilter_" + bson.NewObjectID().Hex()}
	link := NewLink(archive.Options{URI: r.uri, Database: r.name, Keep: 3, Timeout: time.Minute, Log: log, Fault: func(label string) error {
		r.mu.Lock()
		step := r.step
		r.mu.Unlock()
		if step == nil {
			return nil
		}
		return step(label)
	}})
	e, err := engine.Open(t.Context(), store, engine.Settings{Archive: link, Log: log, Filters: []engine.Spec{
		{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "warn"}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	r.Copier = New(e, link, r.registry, log)
	r.noteTimeout = time.Minute
	r.Reconcile(t.Context())
	t.Cleanup(func() {
		r.Stop()
		if err := errors.Join(link.Close(context.Background()), store.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) at(step func(string) error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = step
}

func (r *rig) add(n uint64) (fresh int) {
	r.t.Helper()
	f, err := r.engine.Lookup("uri")
	if err != nil {
		r.t.Fatal(err)
	}
	if fresh, err = f.Add(r.t.Context(), []bloom.Hash{{Lo: n * 0x9e3779b97f4a7c15, Hi: n * 0xbf58476d1ce4e5b9}}, 0, make([]bool, 1)); err != nil {
		r.t.Fatal(err)
	}
	return fresh
}

// counter returns the value of the metric for the filter uri.
func (r *rig) counter(name string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		if m := family.GetMetric(); family.GetName() == name && len(m) == 1 && m[0].GetLabel()[0].GetValue() == "uri" {
			return m[0].GetCounter().GetValue()
		}
	}
	r.t.Fatalf("no metric %s", name)
	return 0
}

func TestWritebackAndRestore(t *testing.T) {
	r := newRig(t)
	r.add(1)
	before := time.Now()
	done, err := r.Writeback(t.Context(), "1", nil)
	if err != nil || done.Filter != "uri" || done.Version != "uri-1" || done.Generation != 1 || done.Items != 1 || done.Uploaded == 0 || done.Took <= 0 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if f, _ := r.engine.Lookup("uri"); f.Stats().LastWriteback.Before(before) {
		t.Errorf("last writeback %v", f.Stats().LastWriteback)
	}
	if done, err = r.Restore(t.Context(), "uri", "uri-1", nil); err != nil || done.Version != "uri-1" || done.Uploaded != 0 {
		t.Errorf("got %+v, %v", done, err)
	}
	var unknown *UnknownVersionError
	if _, err := r.Restore(t.Context(), "uri", "uri-7", nil); !errors.As(err, &unknown) || len(unknown.Known) != 1 {
		t.Errorf("got %v", err)
	}
	if _, err := r.Restore(t.Context(), "nope", "", nil); !errors.As(err, &unknown) {
		t.Errorf("got %v", err)
	}
	var none *engine.UnknownFilterError
	if _, err := r.Writeback(t.Context(), "nope", nil); !errors.As(err, &none) {
		t.Errorf("got %v", err)
	}
}

// A filter that is dropped while its first version is written stays dropped: one that is made again under its name,
// also before the version is there, does not get its items.
func TestDropDuringTheFirstWriteback(t *testing.T) {
	for name, again := range map[string]bool{"dropped": false, "made again": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.add(1)
			f, err := r.engine.Lookup("uri")
			if err != nil {
				t.Fatal(err)
			}
			var changed error
			change := sync.OnceFunc(func() {
				if changed = r.engine.Drop(t.Context(), "uri"); changed == nil && again {
					_, _, changed = r.engine.Create(t.Context(), f.Spec)
				}
			})
			r.at(func(label string) error {
				if label == "switch" {
					change()
				}
				return nil
			})
			if _, err := r.Writeback(t.Context(), "uri", nil); err != nil || changed != nil {
				t.Fatal(err, changed)
			}
			if again {
				if done, err := r.Writeback(t.Context(), "uri", nil); err != nil || done.Items != 0 {
					t.Errorf("written back: %+v, %v", done, err)
				}
				if err := r.engine.Drop(t.Context(), "uri"); err != nil {
					t.Fatal(err)
				}
			}
			if _, _, err := r.engine.Create(t.Context(), f.Spec); err != nil {
				t.Fatal(err)
			}
			if r.add(1) != 1 {
				t.Error("an item of the dropped filter is seen")
			}
		})
	}
}

// No archive brings back what was in a filter that was cleared while its first version was written.
func TestClearDuringTheFirstWriteback(t *testing.T) {
	r := newRig(t)
	r.add(1)
	var cleared error
	change := sync.OnceFunc(func() { _, cleared = r.engine.Clear(t.Context(), "uri") })
	r.at(func(label string) error {
		if label == "switch" {
			change()
		}
		return nil
	})
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil || cleared != nil {
		t.Fatal(err, cleared)
	}
	all, err := r.link.Newest(t.Context())
	if err != nil || len(all) != 1 || all[0].Items != 0 || all[0].Header.Generation != 2 || all[0].Dropped {
		t.Errorf("the archive has %+v, %v", all, err)
	}
	r.add(2)
	if done, err := r.Writeback(t.Context(), "uri", nil); err != nil || done.Items != 1 {
		t.Errorf("written back: %+v, %v", done, err)
	}
}

// A dropped filter is told from an empty one, by name and in the archive, until it is written back again.
func TestRestoreOfADroppedFilter(t *testing.T) {
	r := newRig(t)
	r.add(1)
	f, err := r.engine.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	dropped := func() bool {
		t.Helper()
		all, err := r.link.Newest(t.Context())
		if err != nil || len(all) != 1 {
			t.Fatalf("newest: %v, %v", all, err)
		}
		return all[0].Dropped
	}
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil || dropped() {
		t.Fatal(err, dropped())
	}
	if err := r.engine.Drop(t.Context(), "uri"); err != nil || !dropped() {
		t.Fatal(err, dropped())
	}
	var unknown *UnknownVersionError
	if _, err := r.Restore(t.Context(), "uri", "", nil); !errors.As(err, &unknown) || len(unknown.Known) != 2 {
		t.Errorf("restored without a version: %v", err)
	}
	if _, err := r.engine.Lookup("uri"); !errors.As(err, new(*engine.UnknownFilterError)) {
		t.Errorf("after that: %v", err)
	}
	if _, err := r.Restore(t.Context(), "uri", "uri-1", nil); err != nil || r.add(1) != 0 {
		t.Errorf("restored: %v, or an item is lost", err)
	}
	if _, err := r.Writeback(t.Context(), "uri", nil); !errors.As(err, new(*archive.MismatchError)) || !strings.Contains(err.Error(), "says that the filter was dropped") {
		t.Errorf("written back over the tombstone: %v", err)
	}
	if err := r.engine.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.engine.Create(t.Context(), f.Spec); err != nil || r.add(1) != 1 || !dropped() {
		t.Errorf("made again: %v", err)
	}
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil || dropped() {
		t.Error("written back again:", err, dropped())
	}
}

// A copy that fails is counted and noted in the archive; one that is canceled is not.
func TestFailuresAreCountedAndNoted(t *testing.T) {
	r := newRig(t)
	r.add(1)
	broken := errors.New("cable pulled")
	r.at(func(string) error { return broken })
	var failed *CopyError
	if _, err := r.Writeback(t.Context(), "uri", nil); !errors.As(err, &failed) || !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	r.at(func(label string) error {
		if label == "upload" {
			cancel()
		}
		return nil
	})
	if _, err := r.Writeback(ctx, "uri", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("given up: got %v", err)
	}
	r.at(nil)
	for name, want := range map[string]float64{"urifilter_writeback_failures_total": 1, "urifilter_restore_failures_total": 0} {
		if got := r.counter(name); got != want {
			t.Errorf("%s{filter=uri}: %v, want %v", name, got, want)
		}
	}
	if n := r.countErrors(); n != 1 {
		t.Errorf("%d errors noted in the archive, want 1", n)
	}
	// Neither left a lease behind that blocks the next writeback.
	if _, err := r.Writeback(t.Context(), "uri", nil); err != nil {
		t.Error(err)
	}
}

func TestOneCopyOfAFilterAtATime(t *testing.T) {
	r := newRig(t)
	r.add(1)
	reached, release := make(chan struct{}), make(chan struct{})
	r.at(func(label string) error {
		if label == "upload" {
			close(reached)
			<-release
		}
		return nil
	})
	first := make(chan error, 1)
	go func() {
		_, err := r.Writeback(t.Context(), "uri", nil)
		first <- err
	}()
	<-reached
	var busy *BusyError
	if _, err := r.Restore(t.Context(), "1", "", nil); !errors.As(err, &busy) || busy.Doing != "writeback" {
		t.Errorf("got %v", err)
	}
	close(release)
	if err := <-first; err != nil {
		t.Error(err)
	}
	r.at(nil)
	if _, err := r.Restore(t.Context(), "1", "", nil); err != nil {
		t.Errorf("after it: %v", err)
	}
}

// Stop cuts off the copy that is under way, waits for it to end, and lets no other begin.
func TestStop(t *testing.T) {
	r := newRig(t)
	r.add(1)
	reached, release := make(chan struct{}), make(chan struct{})
	r.at(func(label string) error {
		if label == "upload" {
			close(reached)
			<-release
		}
		return nil
	})
	ended, stopped := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := r.Writeback(t.Context(), "uri", nil)
		ended <- err
	}()
	<-reached
	go func() {
		r.Stop()
		close(stopped)
	}()
	for other := error(&BusyError{}); !errors.Is(other, ErrStopping); { // refused by what Stop does first
		var busy *BusyError
		if !errors.As(other, &busy) {
			t.Fatalf("another one: got %v", other)
		}
		_, other = r.Writeback(t.Context(), "uri", nil)
	}
	select {
	case <-stopped:
		t.Error("Stop has not waited")
	default:
	}
	close(release)
	if err := <-ended; !errors.Is(err, ErrStopping) {
		t.Errorf("got %v", err)
	}
	<-stopped
}

// All callers that want an unreachable archive wait for the same attempt; later callers start a
// new one.
func TestLinkSharesAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := NewLink(archive.Options{})
		attempts := 0
		link.connect = func(context.Context, archive.Options) (*archive.Archive, error) {
			attempts++
			time.Sleep(10 * time.Second)
			return nil, fmt.Errorf("attempt %d: %w", attempts, archive.ErrUnreachable)
		}
		for round := 1; round <= 2; round++ {
			var all sync.WaitGroup
			for i := range 10 {
				all.Go(func() {
					time.Sleep(time.Duration(i) * time.Second / 2)
					if _, err := link.Open(t.Context()); !errors.Is(err, archive.ErrUnreachable) {
						t.Errorf("got %v", err)
					}
				})
			}
			all.Wait()
			if attempts != round {
				t.Errorf("%d attempts for %d times ten callers", attempts, round)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := link.Open(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("given up: got %v", err)
		}
		if err := link.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A scheduled round asks an archive that cannot be reached once, not for each filter, and counts
// a failure of each.
func TestDeadArchiveIsAskedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "always", Log: log})
		if err != nil {
			t.Fatal(err)
		}
		var filters []engine.Spec
		for i, name := range []string{"a", "b", "c"} {
			filters = append(filters, engine.Spec{ID: i + 1, Name: name, Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "warn"}})
		}
		e, err := engine.Open(t.Context(), store, engine.Settings{Log: log, Filters: filters})
		if err != nil {
			t.Fatal(err)
		}
		link := NewLink(archive.Options{})
		attempts := 0
		link.connect = func(context.Context, archive.Options) (*archive.Archive, error) {
			attempts++
			time.Sleep(10 * time.Second)
			return nil, archive.ErrUnreachable
		}
		k := New(e, link, prometheus.NewRegistry(), log)
		ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
		defer cancel()
		k.Every(ctx, time.Hour)
		if attempts != 1 {
			t.Errorf("%d attempts in a round, want 1", attempts)
		}
		for _, name := range []string{"a", "b", "c"} {
			if n := k.metrics.failed.count[failure{"writeback", name}]; n != 1 {
				t.Errorf("%s: %v failures are counted, want 1", name, n)
			}
		}
		k.Stop()
		if err := errors.Join(link.Close(t.Context()), store.Close()); err != nil {
			t.Error(err)
		}
	})
}

// The time since the last writeback, or since the filter was made, counts over a restart.
func TestIntervalGoesOnOverARestart(t *testing.T) {
	for _, test := range []struct {
		age, ago, least, most time.Duration
	}{
		{0, 0, 21 * time.Minute, 27 * time.Minute}, // never
		{23 * time.Minute, 0, 2 * time.Minute, 4 * time.Minute},
		{0, 10 * time.Minute, 11 * time.Minute, 17 * time.Minute},
		{0, 23 * time.Minute, 2 * time.Minute, 4 * time.Minute},
		{0, 1000 * time.Minute, 2 * time.Minute, 3 * time.Minute},
		{0, -time.Minute, 21 * time.Minute, 27 * time.Minute}, // the clock was set
	} {
		synctest.Test(t, func(t *testing.T) {
			log := slog.New(slog.DiscardHandler)
			store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "always", Log: log})
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.Open(t.Context(), store, engine.Settings{Log: log, Filters: []engine.Spec{
				{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "warn"}},
			}})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(test.age)
			start, asked := time.Now(), time.Duration(0)
			if bits, err := e.Filters()[0].BitMap(); err != nil {
				t.Fatal(err)
			} else if test.ago != 0 {
				bits.WrittenBack(start.Add(-test.ago))
			}
			ctx, cancel := context.WithCancel(t.Context())
			link := NewLink(archive.Options{})
			link.connect = func(context.Context, archive.Options) (*archive.Archive, error) {
				asked = time.Since(start)
				cancel()
				return nil, archive.ErrUnreachable
			}
			k := New(e, link, prometheus.NewRegistry(), log)
			k.Reconcile(ctx)
			k.Every(ctx, 24*time.Minute)
			if asked < test.least || asked > test.most {
				t.Errorf("made %s ago, last written back %s ago: written back after %s, want %s to %s", test.age, test.ago, asked, test.least, test.most)
			}
			k.Stop()
			if err := errors.Join(link.Close(t.Context()), store.Close()); err != nil {
				t.Error(err)
			}
		})
	}
}

// Close does not wait until an attempt ends by itself.
func TestLinkIsClosedInAnAttempt(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	link := NewLink(archive.Options{URI: "mongodb://" + l.Addr().String(), Timeout: time.Hour})
	opened := make(chan error, 1)
	go func() {
		_, err := link.Open(t.Context())
		opened <- err
	}()
	silent, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := link.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-opened; err == nil {
		t.Error("an archive that says nothing is open")
	}
}

func TestJitterIsATenth(t *testing.T) {
	least, most := time.Hour, time.Duration(0)
	for range 1000 {
		d := jittered(time.Minute)
		least, most = min(least, d), max(most, d)
	}
	if least < 54*time.Second || most > 66*time.Second || most-least < 8*time.Second {
		t.Errorf("from %s to %s, want 54 s to 66 s", least, most)
	}
}
