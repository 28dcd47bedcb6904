package http

import (
	"runtime"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// metrics are the counts of HTTP; package tally counts the outcomes of items. No label holds an
// item, or any other value that clients choose freely.
type metrics struct {
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	errors   *prometheus.CounterVec
	inFlight prometheus.Gauge
}

func newMetrics(registry *prometheus.Registry, version string) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_requests_total",
			Help: "Requests by path and status; 499: the client was gone, 599: a stream's answer was cut off.",
		}, []string{"path", "code"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "urifilter_errors_total",
			Help: "Requests that were answered with a problem, by path, method and its error_code.",
		}, []string{"path", "method", "error_code"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "urifilter_requests_in_flight",
			Help: "Requests that are being answered.",
		}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "urifilter_request_duration_seconds",
			Help:    "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 11), // 50 us to 52 s
		}, []string{"path"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name:        "urifilter_build_info",
		Help:        "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	})
	build.Set(1)
	registry.MustRegister(m.requests, m.seconds, m.errors, m.inFlight, build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
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
