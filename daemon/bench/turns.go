package main

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// measured is one run.
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

// runs are all runs of one thing. Their medians count.
type runs []measured

func median[T int | float64 | time.Duration](all runs, of func(measured) T) T {
	var values []T
	for _, m := range all {
		values = append(values, of(m))
	}
	return report.Median(values)
}

func (all runs) rate() float64 { return median(all, func(m measured) float64 { return m.rate }) }

func (all runs) p50() string {
	return report.Milliseconds(median(all, func(m measured) time.Duration { return m.p50 }))
}

func (all runs) p99() string {
	return report.Milliseconds(median(all, func(m measured) time.Duration { return m.p99 }))
}

// turn is a thing that takes turns with others.
type turn struct {
	sample  string // the name of its samples
	measure func(conns int) (measured, error)
}

var connections = [...]int{1, 4, 16}

// inTurn measures things over these connections. They take turns within each round, so that other work
// of the machine affects all of them. each receives the runs of all of them with conns connections.
func (s settings) inTurn(things []turn, each func(conns int, all []runs)) error {
	for _, conns := range connections {
		all := make([]runs, len(things))
		for range s.runs {
			for i, thing := range things {
				m, err := thing.measure(conns)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", thing.sample, conns, err)
				}
				all[i] = append(all[i], m)
				s.out.Run(fmt.Sprintf("%s/connections=%d", thing.sample, conns), m.values()...)
			}
		}
		each(conns, all)
	}
	return nil
}

// sender sends batches, one after the other. If they were made beforehand, send returns errAllSent after the last.
type sender interface {
	send() error
	Close() error
}

var errAllSent = errors.New("all batches are sent")

// drive sends batches over conns connections until the time is over.
func drive(addr string, conns, fresh int, duration time.Duration) (measured, error) {
	return driveBy(dial, addr, conns, fresh, duration)
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
				err := c.send()
				if errors.Is(err, errAllSent) {
					return
				}
				if err != nil {
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
	all := slices.Concat(times...)
	slices.Sort(all)
	return measured{
		rate: float64(len(all)*batch) / spent.Seconds(),
		p50:  report.Quantile(all, 0.5), p99: report.Quantile(all, 0.99),
		items: (len(all) + conns) * batch,
	}, nil
}
