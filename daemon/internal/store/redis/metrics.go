package redis

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
)

var connectedDesc = prometheus.NewDesc("urifilter_store_connected",
	"1 while Redis can be reached, as last seen; it is asked every second.", nil, nil)

var (
	mirrorBytesDesc = prometheus.NewDesc("urifilter_mirror_bytes",
		"Memory that the mirror of a filter in Redis takes, or that of a bit-map may take.", []string{"filter"}, nil)
	mirrorAskedDesc = prometheus.NewDesc("urifilter_mirror_items_total",
		"Look-ups in a mirror that need not be complete: hit, or miss, which costs a round trip to Redis.", []string{"filter", "result"}, nil)
	mirrorEvictedDesc = prometheus.NewDesc("urifilter_mirror_evicted_items_total",
		"Items that were evicted from such a mirror, for newer ones or because it became smaller.", []string{"filter"}, nil)
)

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{connectedDesc, mirrorBytesDesc, mirrorAskedDesc, mirrorEvictedDesc} {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	value := 1.0
	if s.reach.Away() {
		value = 0
	}
	ch <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, value)
	for _, f := range s.all() {
		mirroring, ok := f.(base.Mirroring)
		if !ok {
			continue
		}
		m, name := mirroring.Mirror(), f.Base().Spec.Name
		ch <- prometheus.MustNewConstMetric(mirrorBytesDesc, prometheus.GaugeValue, float64(m.Bytes), name)
		if !m.Partial {
			continue
		}
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), append([]string{name}, labels...)...)
		}
		count(mirrorAskedDesc, m.Found, "hit")
		count(mirrorAskedDesc, m.Asked-m.Found, "miss")
		count(mirrorEvictedDesc, m.Evicted)
	}
}
