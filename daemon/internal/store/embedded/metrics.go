package embedded

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

// metrics are those of the disk. The store is their collector: it reads the journals' sizes
// when the metrics are collected.
type metrics struct {
	fsync prometheus.Histogram
	bytes *prometheus.Desc
}

func newMetrics() metrics {
	return metrics{
		fsync: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "urifilter_journal_fsync_duration_seconds",
			Help:    "Time that a sync of a journal took: with durability always each answer waits for one, and those that wait together share it.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 4, 10), // 50 us to 13 s
		}),
		bytes: prometheus.NewDesc("urifilter_journal_bytes", "Bytes on disk of a filter's journal, with the space that is allocated in advance.", []string{"filter"}, nil),
	}
}

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	s.metrics.fsync.Describe(ch)
	ch <- s.metrics.bytes
}

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.metrics.fsync.Collect(ch)
	for _, set := range s.all() {
		size, err := journal.Size(set.dir)
		if err != nil { // it is dropped at this moment
			s.log.Debug("size of the journal", "filter", set.spec.Name, "err", err)
			continue
		}
		ch <- prometheus.MustNewConstMetric(s.metrics.bytes, prometheus.GaugeValue, float64(size), set.spec.Name)
	}
}
