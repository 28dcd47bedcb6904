package main

import (
	"math"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
)

// httpCharts are the charts of overHTTP, with the points of each server, the null handler first.
type httpCharts struct {
	servers        []contender
	shares         [][]plot.Point // of each server
	middle, slow   [][]plot.Point // p50 and p99
	share, latency plot.Chart
}

func newHTTPCharts(servers []contender) *httpCharts {
	n := len(servers)
	return &httpCharts{servers: servers, shares: make([][]plot.Point, n), middle: make([][]plot.Point, n), slow: make([][]plot.Point, n)}
}

// add adds the rounds of all servers with conns connections, and redraws both charts.
func (c *httpCharts) add(conns int, rounds []runs) {
	for i, all := range rounds {
		// Side by side, so that the bars can be told apart.
		x := float64(conns) * math.Pow(1.05, float64(i)-float64(len(rounds)-1)/2)
		of := func(value func(round int) float64) plot.Point {
			p := plot.Point{X: x}
			var values []float64
			for round := range all {
				values = append(values, value(round))
			}
			p.Low, p.High, p.Y = slices.Min(values), slices.Max(values), report.Median(values)
			return p
		}
		c.shares[i] = append(c.shares[i], of(func(r int) float64 { return 100 * all[r].rate / rounds[0][r].rate }))
		c.middle[i] = append(c.middle[i], of(func(r int) float64 { return all[r].p50.Seconds() * 1000 }))
		c.slow[i] = append(c.slow[i], of(func(r int) float64 { return all[r].p99.Seconds() * 1000 }))
	}
	connections := plot.Axis{Label: "connections, each with one batch of 1,000 items at a time", Log: true, Ticks: []float64{1, 4, 16}}
	c.share = plot.Chart{
		Title: "Items a second over HTTP, beside a handler that does nothing",
		Notes: "medians; bars from the least to the most of all runs, each beside the null handler in the same turn",
		X:     connections, Y: plot.Axis{Label: "per cent of the null handler's rate"},
	}
	c.latency = plot.Chart{
		Title: "Time of a batch of 1,000 items over HTTP",
		Notes: "medians; bars from the least to the most of all runs; client and server share the cores",
		X:     connections, Y: plot.Axis{Label: "milliseconds", Log: true},
	}
	for i, server := range c.servers {
		name := strings.TrimPrefix(server.name, "urifilter, ")
		if i > 0 {
			c.share.Series = append(c.share.Series, plot.Joined(name, c.shares[i])...)
		}
		if server.null || strings.HasSuffix(name, "none") || strings.HasSuffix(name, "always") {
			c.latency.Series = append(c.latency.Series, plot.Joined(name+": p50", c.middle[i])...)
			c.latency.Series = append(c.latency.Series, plot.Joined(name+": p99", c.slow[i])...)
		}
	}
}
