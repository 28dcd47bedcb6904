// Package bench has the daemon's command line put the daemon under load, on the host itself and as
// the service's user: `NAME bench load`. That command defines what is measured.
package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/program"
)

// Load holds the flags of the command; those that are zero are omitted.
type Load struct {
	Connections, Batch int
	Duplicates         *float64
	Rate               string // items per second, also as 500k; "": a closed loop
	Duration           time.Duration
	Protocol           string
	Filter             string
}

func (l Load) args() []string {
	args := []string{"--json"}
	flag := func(name, value string, given bool) {
		if given {
			args = append(args, "--"+name+"="+value)
		}
	}
	flag("connections", strconv.Itoa(l.Connections), l.Connections != 0)
	flag("batch", strconv.Itoa(l.Batch), l.Batch != 0)
	if l.Duplicates != nil {
		flag("duplicates", strconv.FormatFloat(*l.Duplicates, 'g', -1, 64), true)
	}
	flag("rate", l.Rate, l.Rate != "")
	flag("duration", l.Duration.String(), l.Duration != 0)
	flag("protocol", l.Protocol, l.Protocol != "")
	flag("filter", l.Filter, l.Filter != "")
	return args
}

// Result is the part of a run's result that the toolkit shows.
type Result struct {
	ItemsPerSec float64 `json:"items_per_second"`
	Items       int64   `json:"items"`
	Duplicates  float64 `json:"duplicate_share"`
	Latency     Latency `json:"latency_ms"`
	// Corrected is the latency of a closed loop, corrected for coordinated omission.
	Corrected *Latency `json:"corrected_latency_ms"`
	Errors    []struct {
		Code    string `json:"error_code"`
		Batches int64  `json:"batches"`
	} `json:"errors"`
	Warnings []string `json:"warnings"`
	// All is the complete output of the command.
	All json.RawMessage `json:"-"`
}

// Latency of batches in milliseconds.
type Latency struct {
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
}

// command runs `NAME bench load` against the daemon at a URL. If the operator interrupts the run,
// the program gets a SIGHUP and then a SIGTERM, on which it drops the filter that it made; the
// SIGHUP alone would end it before.
func command(c program.CLI, url string, l Load) host.Command {
	run := c.Command("bench load --server " + host.Quote(url) + " " + host.Words(l.args()...))
	run.Script = "trap '' HUP\n" + run.Script
	return run
}

// Run measures the daemon at a URL on its own host, by the command line there. A run with failed batches has a result, and no
// error.
func Run(ctx context.Context, h host.Host, c program.CLI, url string, l Load) (Result, error) {
	out, err := h.Run(ctx, command(c, url, l))
	if failed, is := errors.AsType[*host.CommandError](err); is {
		out = failed.Output
	}
	if out.Stdout == "" && err != nil {
		return Result{}, explain(err, c.Said(err))
	}
	var r Result
	if wrong := json.Unmarshal([]byte(out.Stdout), &r); wrong != nil {
		return Result{}, errors.Join(err, fmt.Errorf("bench load: %w", wrong))
	}
	r.All = json.RawMessage(out.Stdout)
	return r, nil
}

// explain makes an error from the program's own message.
func explain(err error, said string) error {
	if said == "" {
		return err
	}
	if strings.Contains(said, "unknown command") || strings.Contains(said, "unknown flag") {
		said += "\nhint: its release is older than this command: go tool mage deploy"
	}
	return fmt.Errorf("bench load: %s", said)
}

// Failed says how many batches failed, and why.
func (r Result) Failed() string {
	if len(r.Errors) == 0 {
		return "0"
	}
	var kinds []string
	for _, e := range r.Errors {
		kinds = append(kinds, fmt.Sprintf("%d %s", e.Batches, e.Code))
	}
	return strings.Join(kinds, ", ")
}

// Honest returns the latencies to compare: those of an open loop unchanged, of a closed one corrected.
func (r Result) Honest() Latency {
	if r.Corrected != nil {
		return *r.Corrected
	}
	return r.Latency
}
