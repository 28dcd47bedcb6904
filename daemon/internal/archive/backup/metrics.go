package backup

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// metrics count copies. A filter's Stats tell when it was last written back.
type metrics struct {
	writeback, restore prometheus.Observer
	uploaded           prometheus.Counter
	failed             *failures
}

func newMetrics(registry prometheus.Registerer, e *engine.Engine, connected func() bool) *metrics {
	seconds := func(name, help string) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "urifilter_" + name, Help: help,
			Buckets: []float64{0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000},
		})
	}
	writeback := seconds("writeback_duration_seconds", "Time that a bit-map's writeback to the archive took, of those that succeeded.")
	restore := seconds("restore_duration_seconds", "Time that a bit-map's restore from the archive took when it was asked for, of those that succeeded.")
	uploaded := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "urifilter_writeback_uploaded_bytes_total", Help: "Bytes that writebacks sent to the archive.",
	})
	waiting := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "urifilter_filters_waiting", Help: "Filters that wait for the archive and are not served yet.",
	}, func() float64 { return float64(len(e.Waiting())) })
	failed := newFailures(e)
	there := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "urifilter_archive_connected", Help: "1 while a server of the archive that takes writes can be reached, as last seen; 0 before the archive was first needed.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	registry.MustRegister(there, writeback, restore, uploaded, waiting, failed)
	return &metrics{writeback: writeback, restore: restore, uploaded: uploaded, failed: failed}
}

// failures counts the copies that failed. All filters have both series from the start,
// so that a first failure shows as a step, and lose them when they are dropped.
type failures struct {
	engine *engine.Engine
	descs  map[string]*prometheus.Desc // by what was done

	mu    sync.Mutex
	count map[failure]float64
}

type failure struct{ doing, filter string }

func newFailures(e *engine.Engine) *failures {
	desc := func(doing, help string) *prometheus.Desc {
		return prometheus.NewDesc("urifilter_"+doing+"_failures_total", help, []string{"filter"}, nil)
	}
	return &failures{engine: e, count: map[failure]float64{}, descs: map[string]*prometheus.Desc{
		"writeback": desc("writeback", "Writebacks that failed; the last good version stays."),
		"restore":   desc("restore", "Restores that were asked for and failed."),
	}}
}

func (f *failures) add(doing, filter string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.count[failure{doing, filter}]++
}

// Describe implements [prometheus.Collector].
func (f *failures) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range f.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (f *failures) Collect(ch chan<- prometheus.Metric) {
	names := f.engine.Waiting()
	for _, filter := range f.engine.Filters() {
		if _, err := filter.BitMap(); err == nil {
			names = append(names, filter.Name)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	seen := map[string]bool{} // one that waited a moment ago may be in both
	for _, name := range names {
		if seen[name] {
			continue
		}
		seen[name] = true
		for doing, desc := range f.descs {
			ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, f.count[failure{doing, name}], name)
		}
	}
}
