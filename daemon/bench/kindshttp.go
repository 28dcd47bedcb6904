package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/redistest"
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
	srv, err := startServer(s, "always", "URIFILTER_STORE=redis", "URIFILTER_REDIS_ADDRS="+redistest.Start(s.stand).Addr)
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

// besideBloom drives the kinds in turn. The first is bloom. For those that can reserve items, a second
// round reserves and commits them.
func besideBloom(s settings, t *report.Table, srv *server, where string, kinds []sample) error {
	for _, k := range kinds {
		if k.reserve {
			k.note, k.committed = ", reserved and committed", true
			kinds = append(slices.Clip(kinds), k)
		}
	}
	var turns []turn
	for _, k := range kinds {
		by := dial
		if k.committed {
			by = dialReserving
		}
		turns = append(turns, turn{fmt.Sprintf("KindHTTP/kind=%s/where=%s", k.name(), where), func(conns int) (measured, error) {
			if err := srv.remake(k.body()); err != nil {
				return measured{}, err
			}
			return driveBy(by, srv.addr, conns, batch/2, s.duration)
		}})
	}
	return s.inTurn(turns, func(conns int, all []runs) {
		for i, k := range kinds {
			t.Row(k.name(), cmp.Or(k.store, where), fmt.Sprint(conns), report.Million(all[i].rate()), fmt.Sprintf("%.0f %%", all[i].rate()/all[0].rate()*100), all[i].p50(), all[i].p99())
		}
	})
}
