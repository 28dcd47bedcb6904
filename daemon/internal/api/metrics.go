package api

import (
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/cr-clawer/urifilter/daemon/internal/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// metrics are what the interface counts itself. No label holds an item, or anything
// else that clients choose freely.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	refused  *prometheus.CounterVec
	inFlight prometheus.Gauge
	add, has prometheus.Observer // time in the store
	items    *tallies
}

func newMetrics(registry *prometheus.Registry, e *engine.Engine, version string) *metrics {
	store := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "urifilter_store_request_duration_seconds",
		Help:    "Time that the store took for a batch, by operation: add or has.",
		Buckets: prometheus.ExponentialBuckets(10e-6, 4, 11), // 10 us to 10 s
	}, []string{"op"})
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_requests_total",
			Help: "Requests by path and status; 499: the client was gone, 599: a stream's answer was cut off.",
		}, []string{"path", "code"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_errors_total",
			Help: "Requests that were answered with a problem, by path, method and its error_code.",
		}, []string{"path", "method", "error_code"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_refused_tokens_total",
			Help: "Calls that were refused for their token, by why: no token, no bearer token, unknown token, scope lacks.",
		}, []string{"reason"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "urifilter_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "urifilter_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 11), // 50 us to 52 s
		}, []string{"path"}),
		add:   store.WithLabelValues("add"),
		has:   store.WithLabelValues("has"),
		items: newTallies(e),
	}
	for _, reason := range []string{refusedNone, refusedScheme, refusedUnknown, refusedScope} {
		m.refused.WithLabelValues(reason) // so that the first refusal is a step, and no new series
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "urifilter_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(m.requests, m.seconds, m.errors, m.refused, m.inFlight, store, m.items, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// observe counts a batch.
func (m *metrics) observe(op batch.Op, f *engine.Filter, took time.Duration, fresh, all int, err error) {
	if op == batch.Check {
		m.has.Observe(took.Seconds())
		if err == nil {
			m.items.countChecked(f, fresh, all-fresh)
		}
		return
	}
	m.add.Observe(took.Seconds())
	if err == nil {
		m.items.count(f, fresh, all-fresh)
	}
}

// routeMetrics are the metrics of one path.
type routeMetrics struct {
	seconds  prometheus.Observer
	requests *prometheus.CounterVec
	byStatus sync.Map // int to prometheus.Counter: a look-up that allocates nothing
}

func (m *metrics) route(path string) *routeMetrics {
	return &routeMetrics{
		seconds:  m.seconds.WithLabelValues(path),
		requests: m.requests.MustCurryWith(prometheus.Labels{"path": path}),
	}
}

func (m *routeMetrics) count(status int) {
	c, ok := m.byStatus.Load(status)
	if !ok {
		c, _ = m.byStatus.LoadOrStore(status, m.requests.WithLabelValues(strconv.Itoa(status)))
	}
	c.(prometheus.Counter).Inc()
}

// tallies counts the items of each filter and describes the filters when scraped, so
// that the series of a filter end with it.
type tallies struct {
	engine *engine.Engine
	byLife sync.Map // *engine.Life to *tally

	items, checked, invalid, info, live, fill, estimate, capacity, rate, fpr, bytes, writeback, quarantined *prometheus.Desc
}

type tally struct{ fresh, duplicates, checkedNew, checkedSeen, invalid atomic.Uint64 }

func newTallies(e *engine.Engine) *tallies {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("urifilter_"+name, help, append([]string{"filter"}, labels...), nil)
	}
	return &tallies{
		engine:      e,
		items:       desc("items_total", "Items of filter calls, by whether they were new or duplicate.", "result"),
		checked:     desc("checked_items_total", "Items of check calls, which remember nothing, by whether they were new or seen.", "result"),
		invalid:     desc("invalid_items_total", "Items that filter and check calls skipped, as they asked, since they cannot be taken."),
		quarantined: desc("filter_quarantined", "Always 1: the filter's data are damaged, and it is not served."),

		info:      desc("filter_info", "Always 1; the labels say what the filter is.", "id", "kind"),
		live:      desc("filter_items", "Items of a timing filter that have not expired, as last counted."),
		fill:      desc("filter_fill_ratio", "Bits that are set among all, 0 to 1."),
		estimate:  desc("filter_items_estimate", "Distinct items remembered, estimated from the fill."),
		capacity:  desc("filter_capacity_items", "Items at which the error rate asked for still holds."),
		rate:      desc("filter_error_rate_ratio", "The false-positive ratio that was asked for."),
		fpr:       desc("filter_fpr_estimate_ratio", "Present false-positive ratio, estimated from the fill."),
		bytes:     desc("filter_bytes", "Size of the bit-map, or of a timing filter's table."),
		writeback: desc("last_writeback_timestamp_seconds", "When the bit-map was last written to the archive; absent: never."),
	}
}

func (t *tallies) of(f *engine.Filter) *tally {
	if found, ok := t.byLife.Load(f.Life()); ok {
		return found.(*tally)
	}
	made, _ := t.byLife.LoadOrStore(f.Life(), new(tally))
	return made.(*tally)
}

func (t *tallies) count(f *engine.Filter, fresh, duplicates int) {
	of := t.of(f)
	of.fresh.Add(uint64(fresh))
	of.duplicates.Add(uint64(duplicates))
}

func (t *tallies) countChecked(f *engine.Filter, fresh, seen int) {
	of := t.of(f)
	of.checkedNew.Add(uint64(fresh))
	of.checkedSeen.Add(uint64(seen))
}

// countInvalid counts what a call skipped.
func (t *tallies) countInvalid(f *engine.Filter, skipped int) {
	if skipped > 0 {
		t.of(f).invalid.Add(uint64(skipped))
	}
}

// Describe implements [prometheus.Collector].
func (t *tallies) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.items, t.checked, t.invalid, t.info, t.live, t.fill, t.estimate, t.capacity, t.rate, t.fpr, t.bytes, t.writeback, t.quarantined} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector]. It forgets filters that were dropped.
func (t *tallies) Collect(ch chan<- prometheus.Metric) {
	live := map[*engine.Life]bool{}
	for _, f := range t.engine.Filters() {
		live[f.Life()] = true
		t.collect(ch, f)
	}
	named := map[string]bool{} // two folders may claim one name
	for _, q := range t.engine.Quarantined() {
		if !named[q.Name] {
			named[q.Name] = true
			ch <- prometheus.MustNewConstMetric(t.quarantined, prometheus.GaugeValue, 1, q.Name)
		}
	}
	t.byLife.Range(func(life, _ any) bool {
		if !live[life.(*engine.Life)] {
			t.byLife.Delete(life)
		}
		return true
	})
}

func (t *tallies) collect(ch chan<- prometheus.Metric, f *engine.Filter) {
	gauge := func(d *prometheus.Desc, v float64) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, f.Name)
	}
	of, st := t.of(f), f.Stats()
	ch <- prometheus.MustNewConstMetric(t.items, prometheus.CounterValue, float64(of.fresh.Load()), f.Name, "new")
	ch <- prometheus.MustNewConstMetric(t.items, prometheus.CounterValue, float64(of.duplicates.Load()), f.Name, "duplicate")
	ch <- prometheus.MustNewConstMetric(t.checked, prometheus.CounterValue, float64(of.checkedNew.Load()), f.Name, "new")
	ch <- prometheus.MustNewConstMetric(t.checked, prometheus.CounterValue, float64(of.checkedSeen.Load()), f.Name, "seen")
	ch <- prometheus.MustNewConstMetric(t.invalid, prometheus.CounterValue, float64(of.invalid.Load()), f.Name)
	ch <- prometheus.MustNewConstMetric(t.info, prometheus.GaugeValue, 1, f.Name, strconv.Itoa(f.ID), f.Kind)
	gauge(t.bytes, float64(st.Bytes))
	if _, ok := f.Set.(engine.BitMap); !ok {
		gauge(t.live, float64(st.Items))
		return
	}
	gauge(t.fill, st.Fill)
	gauge(t.estimate, float64(st.Items))
	gauge(t.capacity, float64(f.Bound().Items))
	gauge(t.rate, f.Bound().ErrorRate)
	gauge(t.fpr, st.FPR)
	if !st.LastWriteback.IsZero() {
		gauge(t.writeback, float64(st.LastWriteback.UnixMilli())/1000)
	}
}
