package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
		var raw measured // of the same round
		sample := "GoClient/durability=" + durability
		turns := []turn{
			{sample + "/lean", func(conns int) (m measured, err error) {
				if err = daemon.emptyFilter(10_000_000); err == nil {
					m, err = drive(daemon.addr, conns, batch/2, s.duration)
				}
				raw = m
				return m, err
			}},
			{sample, func(conns int) (m measured, err error) {
				if err = daemon.emptyFilter(10_000_000); err == nil {
					m, err = driveClient(daemon.addr, conns, raw.items/batch/conns, s.duration)
				}
				return m, err
			}},
		}
		err = s.inTurn(turns, func(conns int, all []runs) {
			raw, own := all[0].rate(), all[1].rate()
			t.Row(durability, fmt.Sprint(conns), report.Million(own), fmt.Sprintf("%.0f %% of %s", own/raw*100, report.Million(raw)))
		})
		if err := errors.Join(err, daemon.stop()); err != nil {
			return err
		}
	}
	s.out.Table("clients", "Package client, the same batches as those of the lean client, one goroutine a connection", t)
	return nil
}

// sdkSender is the client package, with batches that are made before the clock starts.
type sdkSender struct {
	*sdk.Client
	batches [][]string // what is left of them
}

func (c *sdkSender) send() error {
	if len(c.batches) == 0 {
		return errAllSent // it is quicker than the lean client was
	}
	fresh, err := c.Filter(context.Background(), "uri", c.batches[0])
	if err == nil && len(fresh) > batch/2 {
		err = fmt.Errorf("%d new of %d", len(fresh), batch/2)
	}
	c.batches = c.batches[1:]
	return err
}

func (c *sdkSender) Close() error {
	c.Client.Close()
	return nil
}

// driveClient sends batches from that many goroutines with one client. batches is how many the lean client has sent
// from each in that time.
func driveClient(addr string, goroutines, batches int, duration time.Duration) (measured, error) {
	c, err := sdk.New(addr)
	if err != nil {
		return measured{}, err
	}
	made := func(_ string, from uint64, _ int) (*sdkSender, error) {
		return &sdkSender{c, makeBatches(from, batches+batches/4)}, nil
	}
	return driveBy(made, addr, goroutines, batch/2, duration)
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
