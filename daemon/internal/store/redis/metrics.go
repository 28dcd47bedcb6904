package redis

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
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

// countEvery is the pause between two stripes: Redis counts the bits of one in about a
// millisecond, during which it does nothing else.
const countEvery = 250 * time.Millisecond

// counter asks Redis for the number of bits set, for the estimates: one stripe of one
// filter at a time, so that the load does not grow with the filters.
func (s *Store) counter(ctx context.Context) {
	var rest []base.Filter
	for range repeat.Every(ctx, countEvery) {
		if len(rest) == 0 {
			rest = s.all()
		}
		if _, err := s.state.Check(); err != nil {
			continue
		}
		for len(rest) > 0 {
			c, ok := rest[0].(base.Counted)
			if !ok {
				rest = rest[1:]
				continue
			}
			last, err := c.CountNext(ctx)
			if err != nil && ctx.Err() == nil {
				s.log.Debug("count bits in redis", "filter", rest[0].Base().Spec.Name, "err", err)
			}
			if last || err != nil {
				rest = rest[1:]
			}
			break
		}
	}
}
