package main

import (
	"fmt"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// contender is one of the servers that overHTTP measures in turn.
type contender struct {
	name string
	*server
}

// overHTTP measures the filter call for each durability, beside a handler that reads the body and
// answers as many bytes.
//
// The server's own processor time for an item depends least on the client and on the
// machine's other work, and so comes first; the share of the null handler is from the
// same rounds.
func overHTTP(s settings) error {
	all, err := contenders(s)
	if err != nil {
		return err
	}
	var turns []turn
	for _, c := range all {
		turns = append(turns, turn{"HTTP/server=" + c.name, func(conns int) (measured, error) { return c.round(conns, s.duration) }})
	}
	t := report.Table{{"server", "connections", "server's CPU an item", "of it in the kernel", "of the null handler", "items/s", "p50", "p99"}}
	charts := newHTTPCharts(all)
	err = s.inTurn(turns, func(conns int, of []runs) {
		charts.add(conns, of)
		for i, c := range all {
			t.Row(c.name, fmt.Sprint(conns),
				nanoseconds(median(of[i], func(m measured) time.Duration { return m.perItem(m.cpu.all()) })),
				nanoseconds(median(of[i], func(m measured) time.Duration { return m.perItem(m.cpu.system) })),
				fmt.Sprintf("%.2f", of[i].rate()/of[0].rate()), report.Million(of[i].rate()), of[i].p50(), of[i].p99())
		}
	})
	if err != nil {
		return err
	}
	for _, c := range all {
		if err := c.stop(); err != nil {
			return err
		}
	}
	s.out.Table("http", "Client and server on this machine, 66-byte URLs, batches of 1,000, half duplicates, capacity 10 M at 0.0001", t)
	s.out.Chart("http", charts.share)
	s.out.Chart("latency", charts.latency)
	return nil
}

// contenders starts the servers, the null handler first.
func contenders(s settings) ([]contender, error) {
	null, err := startServer(s, "null handler")
	if err != nil {
		return nil, err
	}
	all := []contender{{"null handler", null}}
	for _, durability := range []string{"none", "interval", "always"} {
		for _, build := range []struct{ name, binary string }{{"urifilter", s.binary}, {"urifilter before", s.before}} {
			if build.binary == "" {
				continue
			}
			of := s
			of.binary, of.dir = build.binary, fmt.Sprintf("%s/%d", s.dir, len(all))
			daemon, err := startServer(of, durability)
			if err != nil {
				return nil, err
			}
			all = append(all, contender{build.name + ", durability " + durability, daemon})
		}
	}
	return all, nil
}

// round is one measurement, which begins with an empty filter.
func (c contender) round(conns int, duration time.Duration) (measured, error) {
	if err := c.emptyFilter(10_000_000); err != nil {
		return measured{}, err
	}
	before := c.cpu()
	m, err := drive(c.addr, conns, batch/2, duration)
	m.cpu = c.cpu().since(before)
	return m, err
}

// nanoseconds formats the time for an item; 0: it could not be measured.
func nanoseconds(d time.Duration) string {
	if d == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}
