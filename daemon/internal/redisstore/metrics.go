package redisstore

import "github.com/prometheus/client_golang/prometheus"

var connectedDesc = prometheus.NewDesc("urifilter_store_connected",
	"1 while Redis can be reached, as last seen; it is asked every second.", nil, nil)

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) { ch <- connectedDesc }

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	value := 1.0
	if s.reach.Away() {
		value = 0
	}
	ch <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, value)
}
