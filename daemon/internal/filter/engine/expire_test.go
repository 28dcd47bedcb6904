package engine_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

func TestExpire(t *testing.T) {
	for seconds, want := range map[float64]time.Duration{
		1: time.Second, 0.5: 500 * time.Millisecond, 0.1: 100 * time.Millisecond, 1.001: 1001 * time.Millisecond,
		4.35: 4350 * time.Millisecond, 0.57: 570 * time.Millisecond, 1e-9: time.Millisecond, 5e-324: time.Millisecond,
		0.0011: 2 * time.Millisecond, 3600: time.Hour, 315360000: configs.MaxExpire, 123456789.123: 123456789123 * time.Millisecond,
	} {
		if got, err := engine.Expire(seconds); err != nil || got != want {
			t.Errorf("%v: %v, %v; want %v", seconds, got, err, want)
		}
	}
	for _, seconds := range []float64{0, math.Copysign(0, -1), -1, -1e300, 315360000.002, 1e18, math.MaxFloat64, math.Inf(1), math.Inf(-1), math.NaN()} {
		if got, err := engine.Expire(seconds); err == nil || !strings.Contains(err.Error(), "at most 315360000 (ten years)") {
			t.Errorf("%v: %v, %v", seconds, got, err)
		}
	}
}

// The number is shown as people write it, to be compared with the bound.
func TestExpireIsShownInFull(t *testing.T) {
	if _, err := engine.Expire(315360001); err == nil || !strings.HasPrefix(err.Error(), "expire: 315360001 s: ") {
		t.Error(err)
	}
}

func TestSpecsOfKinds(t *testing.T) {
	bloom := engine.Spec{Name: "a", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 1e-4, OnFull: "warn"}}
	timing := engine.Spec{Name: "a", Kind: "timing", Params: configs.Timing{}}
	expire := func(d time.Duration) func(*engine.Spec) {
		return func(s *engine.Spec) { s.Params = configs.Timing{Expire: d} }
	}
	with := func(s engine.Spec, change func(*engine.Spec)) engine.Spec { change(&s); return s }
	e := open(t, t.TempDir(), engine.Settings{})
	for _, c := range []struct {
		spec  engine.Spec
		field string
	}{
		{with(bloom, expire(time.Second)), "kind"},
		{with(timing, func(s *engine.Spec) { s.Params = configs.Bloom{Capacity: 10, ErrorRate: 0.1, OnFull: "warn"} }), "kind"},
		{with(timing, func(s *engine.Spec) { s.Params = nil }), "kind"},
		{with(bloom, func(s *engine.Spec) { s.Params = configs.Bloom{ErrorRate: 0.1, OnFull: "warn"} }), "capacity"},
		{with(timing, expire(-1)), "expire"},
		{with(timing, expire(configs.MaxExpire+1)), "expire"},
		{with(timing, expire(time.Microsecond)), "expire"},
		{with(timing, func(s *engine.Spec) { s.Kind = "exact" }), "kind"},
		{with(timing, func(s *engine.Spec) { s.Kind = "" }), "kind"},
	} {
		_, _, err := e.Create(t.Context(), c.spec)
		if bad, ok := err.(*engine.SpecError); !ok || bad.Field != c.field {
			t.Errorf("%+v: %v, want a SpecError of %s", c.spec, err, c.field)
		}
	}
	for _, s := range []engine.Spec{timing, with(with(timing, expire(time.Hour)), func(s *engine.Spec) { s.Name = "b" })} {
		f, created, err := e.Create(t.Context(), s)
		if err != nil || !created {
			t.Fatalf("%+v: %v, %v", s, created, err)
		}
		if _, created, err = e.Create(t.Context(), s); err != nil || created {
			t.Errorf("%+v again: %v, %v", s, created, err)
		}
		s.Params = configs.Timing{Expire: time.Minute}
		if _, _, err := e.Create(t.Context(), s); err == nil {
			t.Errorf("another expire: no error")
		}
		if _, err := f.BitMap(); err == nil || !strings.Contains(err.Error(), "kind timing, which has no bit-map") {
			t.Errorf("bit-map of a timing filter: %v", err)
		}
	}
}

// The archive keeps bit-maps: a timing filter never waits for it, and does not change what it
// has under the filter's name.
func TestTimingFiltersBesideAnArchive(t *testing.T) {
	a := newShelf()
	if err := a.put(spec(7, "news"), header(t, 7, 1), 1, 2, 3); err != nil {
		t.Fatal(err)
	}
	news := engine.Spec{ID: 7, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}
	dir := t.TempDir()
	b := open(t, dir, engine.Settings{Archive: a, Filters: []engine.Spec{news, spec(1, "uri")}})
	f, err := b.Lookup("news")
	if err != nil {
		t.Fatal(err)
	}
	if n, err := f.Add(t.Context(), keys([]uint64{1, 2}), 0, make([]bool, 2)); n != 2 || err != nil {
		t.Errorf("before the archive was asked: %d new, %v", n, err)
	}
	b.reconcile()
	b.wantLog("of another kind")
	if f, err = b.Lookup("7"); err != nil || f.Kind != "timing" {
		t.Errorf("after the archive was asked: %v, %v", f, err)
	}
	if err := b.Drop(t.Context(), "news"); err != nil {
		t.Error(err)
	}
	// No tombstone was left: the bit-map comes back on request.
	f, created, err := b.Create(t.Context(), spec(7, "news"))
	if err != nil || !created || b.fresh("news", 1, 2, 3, 4) != 1 {
		t.Errorf("the archived bit-map: %v, %v, %v", f, created, err)
	}
	b.close()
}

func TestWholeMilliseconds(t *testing.T) {
	const limit = 5e9 * time.Second
	for seconds, want := range map[float64]time.Duration{1.5: 1500 * time.Millisecond, 0.1: 100 * time.Millisecond, 0.00001: time.Millisecond, 4e9: 4e9 * time.Second, 5e9: limit} {
		if got, ok := engine.WholeMilliseconds(seconds, limit); got != want || !ok {
			t.Errorf("%g s: got %v, %t; want %v", seconds, got, ok, want)
		}
	}
	for _, seconds := range []float64{-1, 0, 5e9 + 0.002, 1e300, math.Inf(1), math.NaN()} {
		if got, ok := engine.WholeMilliseconds(seconds, limit); ok {
			t.Errorf("%g s: got %v", seconds, got)
		}
	}
	if got, ok := engine.WholeMilliseconds(1e300, math.MaxInt64); ok {
		t.Errorf("1e300 s: got %v", got)
	}
}
