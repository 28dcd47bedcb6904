package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// sample is one reading of a daemon's metrics.
type sample struct {
	url      string
	at       time.Time
	families map[string]*dto.MetricFamily
}

func poll(ctx context.Context, daemon *client.Client) (*sample, error) {
	text, err := daemon.Metrics(ctx)
	if err != nil {
		return nil, err
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("metrics of %s: %w", daemon.URL(), err)
	}
	return &sample{daemon.URL(), time.Now(), families}, nil
}

// label returns the value of a label, "" if the series lacks it.
func label(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// sum adds up the series of a metric that ok accepts.
func (s *sample) sum(name string, ok func(m *dto.Metric) bool) float64 {
	total := 0.0
	for _, m := range s.families["urifilter_"+name].GetMetric() {
		if ok == nil || ok(m) {
			total += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return total
}

// of selects the series of one filter, with this value of result if one is named.
func of(filter, result string) func(m *dto.Metric) bool {
	return func(m *dto.Metric) bool {
		return label(m, "filter") == filter && (result == "" || label(m, "result") == result)
	}
}

// asked selects the series of calls by crawlers and administrators, not of monitoring calls.
func asked(m *dto.Metric) bool {
	return !slices.Contains([]string{"/metrics", "/livez", "/readyz"}, label(m, "path"))
}

// stats is what the command stats shows of two samples, and prints as JSON.
type stats struct {
	URL     string    `json:"url"`
	Version string    `json:"version"`
	Time    time.Time `json:"time"`
	Seconds float64   `json:"seconds"` // since the previous sample; 0: there is none, so no rates
	Ready   bool      `json:"ready"`

	Requests  float64            `json:"requests"`
	InFlight  float64            `json:"in_flight"`
	Errors    float64            `json:"errors"`
	ErrorsBy  map[string]float64 `json:"errors_by_code"`
	Rates     *requestRates      `json:"rates,omitempty"`
	Filters   []filterStats      `json:"filters"`
	restarted bool               // between the samples, so counters were reset
}

type requestRates struct {
	Requests float64 `json:"requests_per_second"`
	Errors   float64 `json:"errors_per_second"`
}

type filterStats struct {
	Name     string       `json:"name"`
	Kind     string       `json:"kind"`
	Items    float64      `json:"items"`
	Capacity float64      `json:"capacity,omitempty"` // 0: the kind has none
	Fill     float64      `json:"fill_ratio,omitempty"`
	FPR      float64      `json:"fpr_estimate,omitempty"`
	Bytes    float64      `json:"bytes"`
	Rates    *filterRates `json:"rates,omitempty"`
}

type filterRates struct {
	Asked float64 `json:"items_per_second"` // of filter and check calls
	New   float64 `json:"new_per_second"`   // of filter calls
}

// since compares s with the previous sample; nil: there is none.
func (s *sample) since(before *sample) stats {
	out := stats{
		URL: s.url, Time: s.at, Ready: s.sum("ready", nil) == 1, Requests: s.sum("requests_total", asked),
		InFlight: max(0, s.sum("requests_in_flight", nil)-1), // without the call that asked
		Errors:   s.sum("errors_total", nil), ErrorsBy: map[string]float64{}, Filters: []filterStats{},
	}
	for _, m := range s.families["urifilter_build_info"].GetMetric() {
		out.Version = label(m, "version")
	}
	for _, m := range s.families["urifilter_errors_total"].GetMetric() {
		out.ErrorsBy[label(m, "error_code")] += m.GetCounter().GetValue()
	}
	// There is none without a previous sample, or after a restart, which resets the counters.
	rate := func(name string, ok func(*dto.Metric) bool) float64 { return 0 }
	if before != nil {
		out.Seconds = s.at.Sub(before.at).Seconds()
		start := func(s *sample) float64 {
			for _, m := range s.families["process_start_time_seconds"].GetMetric() {
				return m.GetGauge().GetValue()
			}
			return 0
		}
		if out.restarted = start(s) != start(before); out.restarted {
			out.Seconds = 0
		}
	}
	known := out.Seconds > 0
	if known {
		rate = func(name string, ok func(*dto.Metric) bool) float64 {
			// A filter that was re-created counts from 0.
			return max(0, s.sum(name, ok)-before.sum(name, ok)) / out.Seconds
		}
		out.Rates = &requestRates{rate("requests_total", asked), rate("errors_total", nil)}
	}
	for _, m := range s.families["urifilter_filter_info"].GetMetric() {
		name := label(m, "filter")
		f := filterStats{
			Name: name, Kind: label(m, "kind"), Items: s.sum("filter_items_estimate", of(name, "")) + s.sum("filter_items", of(name, "")),
			Capacity: s.sum("filter_capacity_items", of(name, "")), Fill: s.sum("filter_fill_ratio", of(name, "")),
			FPR: s.sum("filter_fpr_estimate_ratio", of(name, "")), Bytes: s.sum("filter_bytes", of(name, "")),
		}
		if known {
			f.Rates = &filterRates{rate("items_total", of(name, "")) + rate("checked_items_total", of(name, "")), rate("items_total", of(name, "new"))}
		}
		out.Filters = append(out.Filters, f)
	}
	return out
}

// write writes the table.
func (s stats) write(w io.Writer) error {
	state := "ready"
	if !s.Ready {
		state = "NOT READY"
	}
	requests, errors := "-", "-"
	if s.Rates != nil {
		requests, errors = perSecond(s.Rates.Requests), perSecond(s.Rates.Errors)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s  urifilter %s  %s  %s\n", s.URL, s.Version, state, s.Time.Format(time.TimeOnly))
	fmt.Fprintf(&b, "requests/s %s  in flight %.0f  requests %s  errors/s %s  errors %s", requests, s.InFlight, human.Count(int64(s.Requests)), errors, human.Count(int64(s.Errors)))
	for _, code := range slices.Sorted(maps.Keys(s.ErrorsBy)) {
		fmt.Fprintf(&b, "  %s %s", code, human.Count(int64(s.ErrorsBy[code])))
	}
	b.WriteString("\n\n")
	rows := [][]string{{"FILTER", "KIND", "ITEMS", "FULL", "ERROR NOW", "SIZE", "ITEMS/S", "NEW/S"}}
	for _, f := range s.Filters {
		full, now, items, fresh := "-", "-", "-", "-"
		if f.Capacity > 0 {
			full, now = human.Percent(f.Items/f.Capacity), fmt.Sprintf("%.2g", f.FPR)
		}
		if f.Rates != nil {
			items, fresh = perSecond(f.Rates.Asked), perSecond(f.Rates.New)
		}
		rows = append(rows, []string{f.Name, f.Kind, human.Count(int64(f.Items)), full, now, human.Bytes(int64(f.Bytes)), items, fresh})
	}
	if err := human.Table(&b, rows, map[int]bool{0: true, 1: true}); err != nil {
		return err
	}
	_, err := io.WriteString(w, b.String()+"\n")
	return err
}

// perSecond writes a rate, as a whole number from ten on.
func perSecond(rate float64) string {
	if rate > 0 && rate < 10 {
		return fmt.Sprintf("%.1f", rate)
	}
	return human.Count(int64(rate + 0.5))
}
