package main

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// contender is one of the servers that overHTTP measures in turn.
type contender struct {
	name string
	*server
}

// overHTTP measures the filter call with 1, 4 and 16 connections for each durability,
// beside a handler that reads the body and answers as many bytes. The servers take turns
// within each round, so that other work of the machine affects all of them.
//
// The server's own processor time for an item depends least on the client and on the
// machine's other work, and so comes first; the share of the null handler is from the
// same rounds.
func overHTTP(s settings) error {
	all, err := contenders(s)
	defer func() { // those that are not stopped below
		for _, c := range all {
			_ = c.end(syscall.SIGKILL)
		}
	}()
	if err != nil {
		return err
	}
	t := report.Table{{"server", "connections", "server's CPU an item", "of it in the kernel", "of the null handler", "items/s", "p50", "p99"}}
	charts := newHTTPCharts(all)
	for _, conns := range []int{1, 4, 16} {
		rounds := make([][]measured, len(all))
		for range s.runs {
			for i, c := range all {
				m, err := c.round(conns, s.duration)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", c.name, conns, err)
				}
				rounds[i] = append(rounds[i], m)
				s.out.Run(fmt.Sprintf("HTTP/server=%s/connections=%d", c.name, conns), m.values()...)
			}
		}
		charts.add(conns, rounds)
		for i, c := range all {
			share := median(rounds[i], func(m measured) float64 { return m.rate }) / median(rounds[0], func(m measured) float64 { return m.rate })
			t.Row(c.name, fmt.Sprint(conns),
				nanoseconds(median(rounds[i], func(m measured) time.Duration { return m.perItem(m.cpu.all()) })),
				nanoseconds(median(rounds[i], func(m measured) time.Duration { return m.perItem(m.cpu.system) })),
				fmt.Sprintf("%.2f", share),
				report.Million(median(rounds[i], func(m measured) float64 { return m.rate })),
				report.Milliseconds(median(rounds[i], func(m measured) time.Duration { return m.p50 })),
				report.Milliseconds(median(rounds[i], func(m measured) time.Duration { return m.p99 })))
		}
	}
	for len(all) > 0 {
		last := all[len(all)-1]
		all = all[:len(all)-1]
		if err := last.stop(); err != nil {
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
				return all, err
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

func median[T int | float64 | time.Duration](rounds []measured, of func(measured) T) T {
	var values []T
	for _, m := range rounds {
		values = append(values, of(m))
	}
	return report.Median(values)
}

// nanoseconds formats the time for an item; 0: it could not be measured.
func nanoseconds(d time.Duration) string {
	if d == 0 {
		return "unknown"
	}
	return fmt.Sprintf("%d ns", d.Nanoseconds())
}

type measured struct {
	rate     float64 // items a second
	p50, p99 time.Duration
	items    int // sent in all, warm-up included
	cpu      cpuTime
}

func (m measured) perItem(t time.Duration) time.Duration { return t / time.Duration(max(m.items, 1)) }

// values returns the figures of a run as samples.
func (m measured) values() []report.Value {
	values := []report.Value{report.PerSecond("items", m.rate), report.Took("p50", m.p50), report.Took("p99", m.p99)}
	if cpu := m.perItem(m.cpu.all()); cpu > 0 {
		values = append([]report.Value{report.Took("cpu", cpu)}, values...)
	}
	return values
}

// drive sends batches over conns connections until the time is over.
func drive(addr string, conns, fresh int, duration time.Duration) (measured, error) {
	return driveBy(dial, addr, conns, fresh, duration)
}

// sender sends batches, one after the other.
type sender interface {
	send() error
	Close() error
}

// driveBy is drive with clients made by dial.
func driveBy[C sender](dial func(addr string, from uint64, fresh int) (C, error), addr string, conns, fresh int, duration time.Duration) (measured, error) {
	clients, times := make([]C, conns), make([][]time.Duration, conns)
	for i := range clients {
		c, err := dial(addr, uint64(i)<<40|uint64(time.Now().UnixNano())<<8, fresh)
		if err != nil {
			return measured{}, err
		}
		defer c.Close()
		clients[i] = c
		if err := c.send(); err != nil { // warms up, and gives later batches their duplicates
			return measured{}, err
		}
	}
	var wg sync.WaitGroup
	errs := make(chan error, conns)
	start := time.Now()
	for i, c := range clients {
		wg.Go(func() {
			for time.Since(start) < duration {
				before := time.Now()
				if err := c.send(); err != nil {
					errs <- err
					return
				}
				times[i] = append(times[i], time.Since(before))
			}
		})
	}
	wg.Wait()
	spent := time.Since(start)
	select {
	case err := <-errs:
		return measured{}, err
	default:
	}
	var all []time.Duration
	for _, of := range times {
		all = append(all, of...)
	}
	slices.Sort(all)
	return measured{
		rate: float64(len(all)*batch) / spent.Seconds(),
		p50:  report.Quantile(all, 0.5), p99: report.Quantile(all, 0.99),
		items: (len(all) + conns) * batch,
	}, nil
}
