package mysqlstore

import "github.com/prometheus/client_golang/prometheus"

var connectedDesc = prometheus.NewDesc("urifilter_mysql_connected",
	"1 while MariaDB can be reached and meets the requirements, as last seen; it is asked every second.", nil, nil)

// Describe implements [prometheus.Collector].
func (s *Store) Describe(ch chan<- *prometheus.Desc) { ch <- connectedDesc }

// Collect implements [prometheus.Collector].
func (s *Store) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	defer s.mu.Unlock()
	value := 1.0
	if s.away != nil || s.fault != nil {
		value = 0
	}
	ch <- prometheus.MustNewConstMetric(connectedDesc, prometheus.GaugeValue, value)
}
