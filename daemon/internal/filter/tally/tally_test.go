package tally_test

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/tally"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
)

func scrape(t *testing.T, registry prometheus.Gatherer) string {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&text, family); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestTallies(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	spec := engine.Spec{ID: 1, Name: "uri", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 1e-4, OnFull: "warn"}}
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: []engine.Spec{spec, {ID: 2, Name: "news", Kind: "timing", Params: configs.Timing{Expire: time.Hour}}}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	tallies := tally.New(e, registry)
	f, err := e.Lookup("uri")
	if err != nil {
		t.Fatal(err)
	}
	tallies.Observe(batch.Add, f, time.Millisecond, batch.Counts{New: 2, All: 3}, nil)
	tallies.Observe(batch.Add, f, time.Millisecond, batch.Counts{New: 5, All: 5}, errors.New("it fails"))
	tallies.Observe(batch.Check, f, time.Millisecond, batch.Counts{New: 4, All: 9}, nil)
	tallies.Skipped(f, 0)
	tallies.Skipped(f, 7)
	text := scrape(t, registry)
	for _, want := range []string{
		`urifilter_items_total{filter="uri",result="new"} 2`,
		`urifilter_items_total{filter="uri",result="duplicate"} 1`,
		`urifilter_checked_items_total{filter="uri",result="new"} 4`,
		`urifilter_checked_items_total{filter="uri",result="seen"} 5`,
		`urifilter_invalid_items_total{filter="uri"} 7`,
		`urifilter_store_request_duration_seconds_count{op="add"} 2`,
		`urifilter_store_request_duration_seconds_count{op="has"} 1`,
		`urifilter_filter_capacity_items{filter="uri"} 1000`,
		`urifilter_filter_items{filter="news"} 0`,
		`urifilter_filter_info{filter="news",id="2",kind="timing"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics lack %s:\n%s", want, text)
		}
	}
	if strings.Contains(text, `urifilter_filter_items{filter="uri"}`) || strings.Contains(text, `urifilter_filter_fill_ratio{filter="news"}`) {
		t.Errorf("a filter has metrics that are for other kinds:\n%s", text)
	}
	bits := f.Set
	f.Set = struct{ engine.Set }{bits} // as fingerprints in Redis: a capacity, and no bit-map
	text = scrape(t, registry)
	for _, want := range []string{`urifilter_filter_capacity_items{filter="uri"} 1000`, `urifilter_filter_error_rate_ratio{filter="uri"} 0.0001`, `urifilter_filter_items{filter="uri"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("metrics of a filter of fingerprints lack %s:\n%s", want, text)
		}
	}
	f.Set = bits
	if err := e.Drop(t.Context(), "uri"); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, registry); strings.Contains(text, `filter="uri"`) {
		t.Errorf("a filter that was dropped has metrics:\n%s", text)
	}
	if _, _, err := e.Create(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if text := scrape(t, registry); !strings.Contains(text, `urifilter_items_total{filter="uri",result="new"} 0`+"\n") {
		t.Errorf("a filter that was made again does not begin at zero:\n%s", text)
	}
}

// A filter that grows has the capacity of all its layers, whatever it counts them with.
func TestCapacityOfAFilterThatGrows(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	store, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	e, err := engine.Open(t.Context(), store, engine.Settings{Filters: []engine.Spec{
		{ID: 1, Name: "bits", Kind: "bloom", Params: configs.Bloom{Capacity: 1000, ErrorRate: 1e-4, OnFull: "grow"}},
		{ID: 2, Name: "chain", Kind: "scaling", Params: configs.Scaling{Capacity: 1000, ErrorRate: 1e-4, OnFull: "grow", Expansion: 2}},
	}, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	tally.New(e, registry)
	for _, f := range e.Filters() {
		if n := f.Capacity(); n != 1000 {
			t.Errorf("an empty filter %s has a capacity of %d", f.Name, n)
		}
		for batch := range 10 {
			keys := make([]bloom.Hash, 500)
			for i := range keys {
				keys[i] = bloom.Sum(0, []byte(strconv.Itoa(batch*500+i)))
			}
			if _, err := f.Add(t.Context(), keys, 0, make([]bool, len(keys))); err != nil {
				t.Fatal(err)
			}
		}
		n := f.Capacity()
		if want := fmt.Sprintf("urifilter_filter_capacity_items{filter=%q} %s\n", f.Name, strconv.FormatFloat(float64(n), 'g', -1, 64)); n < 5000 || !strings.Contains(scrape(t, registry), want) {
			t.Errorf("a filter %s with 5000 items has a capacity of %d; metrics lack %s", f.Name, n, want)
		}
	}
}
