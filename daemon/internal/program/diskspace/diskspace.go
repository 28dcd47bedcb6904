// Package diskspace says how much room the file system of a folder has.
package diskspace

import "github.com/prometheus/client_golang/prometheus"

// Metrics gives the room of a program's folder of data to Prometheus. Where it is not known there are no metrics.
func Metrics(dir string) []prometheus.Collector {
	if _, _, known := Of(dir); !known {
		return nil
	}
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "data_dir_free_bytes", Help: "Free space on the file system of data_dir."}, func() float64 {
			free, _, _ := Of(dir)
			return float64(free)
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "data_dir_size_bytes", Help: "Size of the file system of data_dir."}, func() float64 {
			_, size, _ := Of(dir)
			return float64(size)
		}),
	}
}
