package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
)

// overCluster measures the filter call on one Redis and on clusters of three and six masters, all
// on this machine, with mirrors of the whole filter, of half of its size and of a tenth.
func overCluster(s settings) error {
	const capacity = 20_000_000 // 70.3 MB at the bench's error rate
	mirrors := []struct{ share, bytes string }{{"100 %", "0"}, {"50 %", "35200000"}, {"10 %", "7030000"}}
	t := report.Table{{"masters", "mirror", "duplicates", "1 connection", "4", "16"}}
	for _, masters := range []int{1, 3, 6} {
		servers := redisOf(s.stand, masters)
		var addrs []string
		for _, server := range servers {
			addrs = append(addrs, server.Addr)
		}
		for _, mirror := range mirrors {
			samples := fmt.Sprintf("Cluster/masters=%d/mirror=%s", masters, strings.TrimSuffix(mirror.share, " %"))
			err := duplicates(s, addrs, mirror.bytes, samples, capacity, func(share int, rates []float64) {
				row := []string{fmt.Sprint(masters), mirror.share, fmt.Sprintf("%d %%", share)}
				for _, rate := range rates {
					row = append(row, report.Million(rate))
				}
				t.Row(row...)
			})
			if err != nil {
				return err
			}
		}
		for _, server := range servers {
			server.Kill()
		}
	}
	s.out.Table("cluster", "Client, daemon and all masters on this machine, batches of 1,000, items/s by connections; duplicates are of the batch before", t)
	return nil
}

// redisOf starts that many masters; a single one is not a cluster of Redis.
func redisOf(t testing.TB, masters int) (servers []*redistest.Server) {
	if masters == 1 {
		return []*redistest.Server{redistest.Start(t)}
	}
	return redistest.ClusterOf(t, nil, masters, "--appendonly", "no")
}
