package sizing

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/storetest"
)

var checkpoint = Settings{Checkpoint: 64 << 20}

func specOf(kind string, params configs.Params) engine.Spec {
	spec := engine.Spec{ID: 1, Name: "planned", Kind: kind, Params: params}
	return spec.Complete(configs.Default().Defaults())
}

var filters = []struct {
	spec     engine.Spec
	contents kind.Contents
	within   float64 // of the memory
}{
	{specOf("bloom", configs.Bloom{Capacity: 1000, ErrorRate: 0.01, OnFull: "warn"}), kind.Contents{Items: 1000}, 0},
	{specOf("bloom", configs.Bloom{Capacity: 200_000, ErrorRate: 1e-4, OnFull: "reject"}), kind.Contents{Items: 200_000}, 0},
	{specOf("bloom", configs.Bloom{Capacity: 100_000, ErrorRate: 1e-4}), kind.Contents{Items: 95_000}, 0},
	{specOf("bloom", configs.Bloom{Capacity: 50_000, ErrorRate: 1e-3}), kind.Contents{Items: 300_000}, 0}, // three layers
	{specOf("timing", configs.Timing{Expire: time.Hour}), kind.Contents{Items: 70_000}, 0.08},             // see table.Expected
	{specOf("exact", configs.Exact{}), kind.Contents{Items: 2_000}, 0.04},
	{specOf("exact", configs.Exact{}), kind.Contents{Items: 120_000}, 0.07}, // see table.Expected
	{specOf("exact", configs.Exact{Digest: 64}), kind.Contents{Items: 2_000}, 0.04},
	{specOf("exact", configs.Exact{Digest: 64}), kind.Contents{Items: 200_000}, 0.07},
	{specOf("simhash", configs.Simhash{}), kind.Contents{Items: 30_000, IDBytes: 30}, 0.02},
	{specOf("simhash", configs.Simhash{Distance: 6}), kind.Contents{Items: 20_000, IDBytes: 80}, 0.04}, // regions grow by pages
}

// What is predicted is what a real filter takes: memory, file, journal.
func TestNoRacePlansAreWhatFiltersTake(t *testing.T) {
	t.Parallel()
	for _, f := range filters {
		p, err := New(f.spec, f.contents, checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		k, err := kinds.Of(f.spec.Kind)
		if err != nil {
			t.Fatal(err)
		}
		m, err := k.New(f.spec, storetest.Identity(), timing.SystemClock())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Free()
		var log slots
		m.Log(&log)
		if err := fill(t.Context(), m, f.contents.Items, f.contents.IDBytes); err != nil {
			t.Fatal(err)
		}
		name := filepath.Join(t.TempDir(), k.File)
		if err := m.Write(disk.FS{}, name, 1); err != nil {
			t.Fatal(err)
		}
		file, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		near := func(what string, got, want, within float64) {
			t.Helper()
			if math.Abs(got-want) > within*want {
				t.Errorf("%s of %d items: %s: a real one has %.0f, predicted were %.0f", f.spec.Kind, f.contents.Items, what, got, want)
			}
		}
		near("memory", float64(m.Bytes()), float64(p.Memory), f.within)
		near("file", float64(file.Size()), float64(p.File), f.within/10)
		// A few items are taken for seen, and each layer writes a line.
		near("journal of an item", float64(16*len(log.all))/float64(f.contents.Items), float64(p.JournalItem), 0.011)
		if layered, ok := m.(kind.Layered); ok {
			near("layers", float64(len(layered.Layers())), float64(p.Bits.Layers), 0)
		}
		if b, ok := m.(kind.BitMap); ok {
			near("bits", float64(8*b.Bytes()), float64(p.Bits.Bits), 0)
			// Full layers have up to a 32nd more items than they are made for.
			hits, want := measured(b), asked*p.Bits.FalsePositives
			if math.Abs(hits-want) > 5*math.Sqrt(want)+5+0.3*want*min(1, float64(p.Bits.Layers-1)) {
				t.Errorf("false positives of %d items: got %.0f of %d, predicted were %.0f", f.contents.Items, hits, asked, want)
			}
		}
	}
}

const asked = 750 << 12

// measured is how many of so many keys that are not in m it takes for seen.
func measured(m kind.BitMap) float64 {
	const n = 1 << 12
	keys, fresh := make([]bloom.Hash, n), make([]bool, n)
	random, seen := rand.New(rand.NewPCG(77, 1)), 0
	for range asked / n {
		randomKeys(random, keys)
		m.Has(keys, fresh)
		for _, f := range fresh {
			if !f {
				seen++
			}
		}
	}
	return float64(seen)
}

// The room of a journal is what the embedded store keeps to.
func TestJournalOfAPlan(t *testing.T) {
	t.Parallel()
	const due = 1 << 20
	dir := t.TempDir()
	spec := specOf("exact", configs.Exact{})
	store, err := embedded.Open(embedded.Options{Dir: dir, Durability: "none", CheckpointBytes: due, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if _, err := store.Load(context.Background()); err != nil {
		t.Fatal(err)
	}
	set, err := store.Create(context.Background(), spec, storetest.Identity())
	if err != nil {
		t.Fatal(err)
	}
	// So few items that no checkpoint is due.
	const items = 20_000
	if _, err := set.Add(context.Background(), storetest.Keys(set, 0, items), make([]bool, items)); err != nil {
		t.Fatal(err)
	}
	folders, err := filepath.Glob(filepath.Join(dir, "filters", "*"))
	if err != nil || len(folders) != 1 {
		t.Fatalf("got %v, %v, want one folder", folders, err)
	}
	got, err := journal.Size(folders[0])
	if err != nil {
		t.Fatal(err)
	}
	p, err := New(spec, kind.Contents{Items: items}, Settings{Checkpoint: due})
	if err != nil {
		t.Fatal(err)
	}
	if entries := int64(items * p.JournalItem); got < entries || got > int64(p.Journal) {
		t.Errorf("got %d bytes, want %d for the entries and %d at most", got, entries, p.Journal)
	}
	if big, _ := New(spec, kind.Contents{Items: 1e9}, Settings{Checkpoint: due}); big.Journal != big.Memory/4+2*segmentBytes {
		t.Errorf("a large one: got %d, want a quarter of its memory (%d) and two segments", big.Journal, big.Memory)
	}
}

func TestStartIsMeasured(t *testing.T) {
	t.Parallel()
	for _, f := range filters {
		p, err := New(f.spec, f.contents, checkpoint)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := MeasureStart(t.Context(), &p, f.spec, f.contents, 4000, dir); err != nil {
			t.Fatal(err)
		}
		if !(p.Start > 0 && p.StartLongest > p.Start) {
			t.Errorf("%s: got %v s, and %v s with the longest journal", f.spec.Kind, p.Start, p.StartLongest)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: %s is left", f.spec.Kind, left[0].Name())
		}
		stopped, stop := context.WithCancel(t.Context())
		stop()
		if err := MeasureStart(stopped, &p, f.spec, f.contents, 4000, dir); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, stopped: got %v", f.spec.Kind, err)
		}
	}
}

func TestPlansThatAreNone(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		spec     engine.Spec
		contents kind.Contents
	}{
		{specOf("bloom", nil), kind.Contents{}},
		{engine.Spec{Kind: "other"}, kind.Contents{Items: 1}},
		{specOf("bloom", configs.Bloom{Capacity: 1, ErrorRate: 0.9}), kind.Contents{Items: 1}},
	} {
		if p, err := New(c.spec, c.contents, checkpoint); err == nil {
			t.Errorf("%+v of %+v: got %+v", c.contents, c.spec, p)
		}
	}
}
