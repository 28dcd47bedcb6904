package dispatch

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

type metrics struct {
	working   prometheus.Gauge
	handedOut *prometheus.CounterVec
	swept     *prometheus.CounterVec
	tasks     *prometheus.GaugeVec
	seconds   prometheus.Histogram
	errors    prometheus.Counter
}

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
		working:   prometheus.NewGauge(prometheus.GaugeOpts{Name: "dispatcher_working", Help: "1 while this dispatcher hands tasks out, 0 while it stands by."}),
		handedOut: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "handed_out_tasks_total", Help: "Tasks that were made ready, by lane."}, []string{"lane"}),
		swept: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "swept_tasks_total",
			Help: "Tasks that sweeps found: unclaimed (no worker leased them), abandoned (the worker did not renew the lease), failed (of the abandoned, too often)."}, []string{"state"}),
		tasks:   prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "open_tasks", Help: "Tasks of running jobs, by state, after the last round."}, []string{"state"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "dispatch_duration_seconds", Help: "Time that a round takes.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		errors:  prometheus.NewCounter(prometheus.CounterOpts{Name: "dispatch_errors_total", Help: "Rounds with an error."}),
	}
	for _, lane := range download.Lanes() {
		m.handedOut.WithLabelValues(string(lane))
	}
	for _, state := range []string{"unclaimed", "abandoned", "failed"} {
		m.swept.WithLabelValues(state)
	}
	if registry != nil {
		registry.MustRegister(m.working, m.handedOut, m.swept, m.tasks, m.seconds, m.errors)
	}
	return m
}

func (m *metrics) sweptOne(s download.Swept) {
	m.swept.WithLabelValues("unclaimed").Add(float64(s.Unclaimed))
	m.swept.WithLabelValues("abandoned").Add(float64(s.Abandoned))
	m.swept.WithLabelValues("failed").Add(float64(s.Failed))
}

func (m *metrics) roundDone(r Report, spent time.Duration) {
	m.tasks.WithLabelValues(string(download.Waiting)).Set(float64(r.Waiting))
	m.tasks.WithLabelValues(string(download.Ready)).Set(float64(r.Ready))
	m.tasks.WithLabelValues(string(download.Running)).Set(float64(r.Running))
	m.seconds.Observe(spent.Seconds())
}
