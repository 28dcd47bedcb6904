package downloads

import (
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// A list with a delay: each host has as many pages, so that the ideal is the time for those of one.
const (
	politePages = 40
	politeDelay = 200 * time.Millisecond
)

// Grouped measures lists whose hosts want a delay, in two orders: that of a crawl's output or a sorted file,
// host by host, and mixed.
func Grouped(o Options, out *report.Part) error {
	o.report = out
	o.Pages = politeHosts * politePages
	return o.with(func(string) error {
		ideal := (politePages - 1) * politeDelay
		t := report.Table{{"order of the list", "program", "seconds", "of the ideal"}}
		orders := []struct {
			name string
			host func(i int) int
		}{{"host by host", func(i int) int { return i / politePages }}, {"mixed", func(i int) int { return i % politeHosts }}}
		for _, order := range orders {
			var list strings.Builder
			for i := range o.Pages {
				fmt.Fprintf(&list, "http://127.0.0.%d:%d/page/%d\n", 1+order.host(i), o.port, i)
			}
			builds := []struct{ name, binary string }{{"uridownloader serve", o.binary}}
			if o.Before != "" {
				builds = append(builds, struct{ name, binary string }{"uridownloader serve, before", o.Before})
			}
			took := make([][]float64, len(builds))
			for range o.Runs {
				for i, build := range builds {
					one := o
					one.binary = build.binary
					m, err := one.runJob(perWorker, fmt.Sprintf("name: bench\nsetting: {delay: %s}\n", politeDelay), list.String(), nil)
					if err != nil {
						return fmt.Errorf("%s: %w", build.name, err)
					}
					seconds := float64(o.Pages) / m.rate
					took[i] = append(took[i], seconds)
					o.report.Run(fmt.Sprintf("Grouped/order=%s/program=%s", order.name, build.name), report.Value{N: seconds, Unit: "s"})
				}
			}
			for i, build := range builds {
				seconds := report.Median(took[i])
				t.Row(order.name, build.name, fmt.Sprintf("%.1f", seconds), fmt.Sprintf("%.2f", seconds/ideal.Seconds()))
			}
		}
		o.report.Table("grouped", fmt.Sprintf("%s pages of %d hosts, %s between two requests to a host: ideally %.1f s", report.Whole(float64(o.Pages)), politeHosts, politeDelay, ideal.Seconds()), t)
		return nil
	})
}
