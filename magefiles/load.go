//go:build mage

package main

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/provision"
	"github.com/cr-clawer/urifilter/provision/bench"
)

// BenchLoad puts the daemons under load, one host after the other, each with its own command line (urifilter bench load) on its own host, and shows rate and latency.
//
//	go tool mage bench:load -connections=16
//	go tool mage bench:load -hosts=web1 -rate=500k -batch=100 -duration=1m -json
//
// CALLERS OF THE DAEMONS NOTICE IT. Each run creates its own filter, and drops it at the end; -filter=NAME
// uses an existing one, which keeps the items. With -rate, latencies count from when batches were due; otherwise
// they are corrected for coordinated omission; see docs/laboratory.md. -json has all measurements.
// It exits with 1 when batches failed.
func BenchLoad(
	ctx context.Context,
	connections *int, // each sends one batch at a time; 4 if not given
	batch *int, // items in each batch; 1000 if not given
	duplicates *float64, // share of items that were sent before; 0.5 if not given
	rate *string, // items to send per second, such as 500k; as fast as answers come if not given
	duration *time.Duration, // per host; 10s if not given
	protocol *string, // json, text or ndjson
	filter *string, // use this filter, and leave the items in it
	look *string,
) error {
	l := bench.Load{
		Connections: valueOr(connections, 0), Batch: valueOr(batch, 0), Duplicates: duplicates, Rate: valueOr(rate, ""),
		Duration: valueOr(duration, 0), Protocol: valueOr(protocol, ""), Filter: valueOr(filter, ""),
	}
	return with(look, provision.Options{}, func(t *provision.Toolkit) error { return t.BenchLoad(ctx, l) })
}
