package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	sdk "github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/bench/report"
)

// overClients measures the client package with which Go programs call the daemon, beside
// the lean client of this program.
func overClients(s settings) error {
	t := report.Table{{"Go client, durability", "connections", "items/s", "of the raw figure"}}
	for _, durability := range []string{"none", "always"} {
		daemon, err := startServer(s, durability)
		if err != nil {
			return err
		}
		for _, conns := range []int{1, 4, 16} {
			var raw, own []float64
			for range s.runs {
				if err := daemon.emptyFilter(10_000_000); err != nil {
					return err
				}
				m, err := drive(daemon.addr, conns, batch/2, s.duration)
				if err != nil {
					return err
				}
				if err := daemon.emptyFilter(10_000_000); err != nil {
					return err
				}
				rate, err := driveClient(daemon.addr, conns, int(m.rate*s.duration.Seconds())/batch/conns)
				if err != nil {
					return fmt.Errorf("%s, %d connections: %w", durability, conns, err)
				}
				raw, own = append(raw, m.rate), append(own, rate)
				name := fmt.Sprintf("GoClient/durability=%s/connections=%d", durability, conns)
				s.out.Run(name, report.PerSecond("items", rate))
				s.out.Run(name+"/lean", report.PerSecond("items", m.rate))
			}
			t.Row(durability, fmt.Sprint(conns), report.Million(report.Median(own)), fmt.Sprintf("%.0f %% of %s", report.Median(own)/report.Median(raw)*100, report.Million(report.Median(raw))))
		}
		if err := daemon.stop(); err != nil {
			return err
		}
	}
	s.out.Table("clients", "Package client, the same batches as those of the lean client, one goroutine a connection", t)
	return nil
}

// driveClient sends that many batches from each of that many goroutines, and returns the
// items a second. The items are made before the clock starts.
func driveClient(addr string, goroutines, batches int) (float64, error) {
	c, err := sdk.New(addr)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	lists := make([][][]string, goroutines)
	for g := range lists {
		lists[g] = makeBatches(uint64(g)<<40|uint64(time.Now().UnixNano())<<8, batches)
		if _, err := c.Filter(context.Background(), "uri", lists[g][0]); err != nil { // warms up
			return 0, err
		}
	}
	errs := make(chan error, goroutines)
	var wg sync.WaitGroup
	start := time.Now()
	for _, list := range lists {
		wg.Go(func() {
			for _, items := range list[1:] {
				fresh, err := c.Filter(context.Background(), "uri", items)
				if err == nil && len(fresh) > batch/2 {
					err = fmt.Errorf("%d new of %d", len(fresh), batch/2)
				}
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	spent := time.Since(start)
	select {
	case err := <-errs:
		return 0, err
	default:
	}
	return float64(goroutines*batches*batch) / spent.Seconds(), nil
}

// makeBatches makes one batch more than batches, in one piece of memory. Each has as many
// new items as duplicates of items in the same batch.
func makeBatches(next uint64, batches int) [][]string {
	fresh := batch / 2
	var text strings.Builder
	text.Grow((batches + 1) * fresh * len(urlPattern))
	url := []byte(urlPattern)
	digits := url[strings.Index(urlPattern, "0123456789abcdef"):][:16]
	for range (batches + 1) * fresh {
		putHex(digits, next)
		next++
		text.Write(url)
	}
	all := text.String()
	lists := make([][]string, batches+1)
	for i := range lists {
		lists[i] = make([]string, batch)
		for j := range lists[i] {
			at := (i*fresh + j%fresh) * len(urlPattern)
			lists[i][j] = all[at : at+len(urlPattern)]
		}
	}
	return lists
}
