package filters_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

// A filter with default settings grows: it says so, shows its layers, and is never over
// capacity. At limits.filter_bytes it takes no new items, and still answers seen ones.
func TestNoRaceAFilterGrows(t *testing.T) {
	const bound = 2 << 20
	st := apitest.OpenEmbedded(t, t.TempDir())
	e, err := engine.Open(context.Background(), st, engine.Settings{FilterBytes: bound, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r := apitest.Over(t, st, func(o *api.Options) {
		o.Engine, o.Defaults = e, configs.Default().Defaults()
	})
	t.Cleanup(func() { // before the rig's own
		r.HTTP.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	made := r.Put("grows", `{"capacity":20000,"error_rate":0.001}`)
	if made.Status != 201 || !strings.Contains(made.Body, `"on_full":"grow"`) || !strings.Contains(made.Body, `"layers":[{"capacity":20000,"error_rate":0.0005,`) {
		t.Fatalf("made: %d %s", made.Status, made.Body)
	}
	if a := r.Put("grows", `{"capacity":20000,"error_rate":0.001,"on_full":"warn"}`); a.Status != 409 {
		t.Errorf("PUT of one that does not grow: %d %s", a.Status, a.Body)
	}
	batch := func(n int) string {
		items := make([]string, 10_000)
		for i := range items {
			items[i] = fmt.Sprintf("%d", n*len(items)+i)
		}
		return `{"filter_typeid":"grows","uri_list":[` + strings.Join(items, ",") + `]}`
	}
	for n := range 20 {
		a := r.Post("/api/v1/filter", batch(n))
		if a.Status != 200 || a.Header.Get("Urifilter-Over-Capacity") != "" {
			t.Fatalf("batch %d: %d %v", n, a.Status, a.Header)
		}
	}
	f := apitest.Info(t, r.Do("GET", "/api/v1/filters/grows", ""))
	if len(f.Layers) < 2 || f.FPREstimate > 0.001 || f.ItemsEstimate < 199_000 {
		t.Errorf("after ten times the capacity: %+v", f)
	}
	bytes, items := uint64(0), uint64(0)
	for i, l := range f.Layers {
		bytes, items = bytes+l.Bytes, items+l.ItemsEstimate
		if l.Capacity < 20_000<<i || i == 0 && l.Capacity != 20_000 {
			t.Errorf("layer %d: %+v", i, l)
		}
	}
	if bytes != f.Bytes || items != f.ItemsEstimate {
		t.Errorf("layers of %d bytes and %d items, the filter has %d and %d", bytes, items, f.Bytes, f.ItemsEstimate)
	}

	refused := 20
	for ; refused < 100; refused++ {
		a := r.Post("/api/v1/filter", batch(refused))
		if a.Status == 507 {
			if p := a.Problem(t); p.ErrorCode != problem.FilterFull || !strings.Contains(p.Detail, "limits.filter_bytes") || strings.Contains(p.Detail, "forgotten") {
				t.Errorf("got %s", a.Body)
			}
			break
		}
	}
	f = apitest.Info(t, r.Do("GET", "/api/v1/filters/grows", ""))
	if refused == 100 || f.Bytes > bound*3/2 || f.FPREstimate > 0.001 {
		t.Errorf("after %d batches: %d bytes of %d, %v false positives", refused, f.Bytes, bound, f.FPREstimate)
	}
	if a := r.Post("/api/v1/filter", batch(0)); a.Status != 200 || !strings.Contains(a.Body, `"uri_list":[],"total":10000,"duplicates":10000`) {
		t.Errorf("a batch that was seen: %d %.200s", a.Status, a.Body)
	}
}
