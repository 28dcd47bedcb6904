package worker

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	running  prometheus.Gauge
	queued   prometheus.Gauge
	shards   prometheus.Gauge
	attempts *prometheus.CounterVec
	seconds  prometheus.Histogram
	errors   *prometheus.CounterVec
}

// Outcomes of attempts.
const (
	resultDone   = "done"
	resultRetry  = "retry"
	resultFailed = "failed"
	resultGiven  = "given_back"
	resultLost   = "lost"
)

func newMetrics(registry prometheus.Registerer) metrics {
	m := metrics{
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "running_downloads", Help: "Downloads under way."}),
		queued:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "queued_tasks", Help: "Tasks that are leased and wait for their host."}),
		shards:  prometheus.NewGauge(prometheus.GaugeOpts{Name: "held_shards", Help: "Shards of hosts that this worker holds."}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "attempts_total",
			Help: "Leases of tasks by result: done, retry (failed, and will be tried again), failed, given_back (not begun, or cut off by a stop or because the shard was lost), lost (the lease ended)."}, []string{"result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "download_duration_seconds", Help: "Time that a download takes, of good and failed ones.", Buckets: prometheus.ExponentialBuckets(0.005, 3, 10)}),
		errors:  prometheus.NewCounterVec(prometheus.CounterOpts{Name: "store_errors_total", Help: "Calls of the store that failed, by what they were for."}, []string{"call"}),
	}
	for _, result := range []string{resultDone, resultRetry, resultFailed, resultGiven, resultLost} {
		m.attempts.WithLabelValues(result)
	}
	for _, call := range []string{"lease", "renew", "shards", "settle"} {
		m.errors.WithLabelValues(call)
	}
	if registry != nil {
		registry.MustRegister(m.running, m.queued, m.shards, m.attempts, m.seconds, m.errors)
	}
	return m
}
