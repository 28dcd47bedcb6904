package main

import (
	"cmp"
	"fmt"
	"os/exec"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

func kindsOverHTTP(s settings) error {
	t := report.Table{{"kind", "durability", "connections", "items/s", "of bloom", "p50", "p99"}}
	for _, durability := range []string{"none", "always"} {
		srv, err := startServer(s, durability)
		if err != nil {
			return err
		}
		if err := besideBloom(s, &t, srv, durability, samples(10_000_000)); err != nil {
			return err
		}
		if err := srv.stop(); err != nil {
			return err
		}
	}
	s.out.Table("kindshttp", "Batches of 1,000 items of 66 bytes, half duplicates", t)
	return nil
}

func kindsOverRedis(s settings) error {
	if _, err := exec.LookPath("redis-server"); err != nil {
		fmt.Println("\nkinds in Redis: redis-server is not installed (Debian: redis-server); left out")
		return nil
	}
	redis, err := startRedis(s)
	if err != nil {
		return err
	}
	defer redis.Process.Kill()
	srv, err := startServer(s, "always", "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+redis.Args[len(redis.Args)-1])
	if err != nil {
		return err
	}
	const items = 10_000_000
	all := slices.DeleteFunc(samples(items), func(k sample) bool { return !k.redis })
	all = slices.Insert(all, 1, sample{kind: "bloom", note: " of fingerprints", params: configs.Bloom{Capacity: items, ErrorRate: errorRate, OnFull: "grow", Layout: "fingerprints"}})
	t := report.Table{{"kind", "store", "connections", "items/s", "of bloom", "p50", "p99"}}
	if err := besideBloom(s, &t, srv, "redis", all); err != nil {
		return err
	}
	s.out.Table("kindsredis", "Client, daemon and Redis on this machine, half duplicates", t)
	return srv.stop()
}

// besideBloom drives the kinds in turn, so that other work of the machine affects all of them.
// The first is bloom. For those that can reserve items, a second round reserves and commits them.
func besideBloom(s settings, t *report.Table, srv *server, where string, kinds []sample) error {
	for _, k := range kinds {
		if k.reserve {
			k.note, k.committed = ", reserved and committed", true
			kinds = append(slices.Clip(kinds), k)
		}
	}
	for _, conns := range []int{1, 4, 16} {
		all := make([][]measured, len(kinds))
		for range s.runs {
			for i, k := range kinds {
				if err := srv.remake(k.body()); err != nil {
					return err
				}
				by := dial
				if k.committed {
					by = dialReserving
				}
				m, err := driveBy(by, srv.addr, conns, batch/2, s.duration)
				if err != nil {
					return fmt.Errorf("%s, %s, %d connections: %w", k.name(), where, conns, err)
				}
				all[i] = append(all[i], m)
				s.out.Run(fmt.Sprintf("KindHTTP/kind=%s/where=%s/connections=%d", k.name(), where, conns), m.values()...)
			}
		}
		var bloomRate float64
		for i, k := range kinds {
			var rates []float64
			var p50s, p99s []time.Duration
			for _, m := range all[i] {
				rates, p50s, p99s = append(rates, m.rate), append(p50s, m.p50), append(p99s, m.p99)
			}
			rate := report.Median(rates)
			if i == 0 {
				bloomRate = rate
			}
			t.Row(k.name(), cmp.Or(k.store, where), fmt.Sprint(conns), report.Million(rate), fmt.Sprintf("%.0f %%", rate/bloomRate*100), report.Milliseconds(report.Median(p50s)), report.Milliseconds(report.Median(p99s)))
		}
	}
	return nil
}
