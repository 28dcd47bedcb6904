package load

import (
	"fmt"
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Result is what was measured.
type Result struct {
	Loop        string  `json:"loop"` // open or closed
	Seconds     float64 `json:"seconds"`
	Interrupted bool    `json:"interrupted,omitempty"`

	// Batches and Items count those that were answered.
	Batches       int64   `json:"batches"`
	BatchesPerSec float64 `json:"batches_per_second"`
	Items         int64   `json:"items"`
	ItemsPerSec   float64 `json:"items_per_second"`
	// DuplicateShare is the share of items that the server found to be duplicates,
	// SentDuplicateShare the share that was sent; nil: that is not known.
	DuplicateShare     float64  `json:"duplicate_share"`
	SentDuplicateShare *float64 `json:"sent_duplicate_share,omitempty"`
	BytesSent          int64    `json:"bytes_sent"`
	BytesReceived      int64    `json:"bytes_received"`
	InputPasses        int      `json:"input_passes,omitempty"`

	Errors []ErrorCount `json:"errors"`

	// Latency of batches that were answered: in an open loop from when they were due, in a
	// closed one from when they were sent.
	Latency Latency `json:"latency_ms"`
	// Sent (open loop) is from when they were sent, as callers see it that do not wait for others.
	Sent *Latency `json:"sent_latency_ms,omitempty"`
	// Corrected (closed loop) has what connections would have sent at their median pace while
	// they waited for an answer.
	Corrected *Latency `json:"corrected_latency_ms,omitempty"`

	// Unsent (open loop) were due and not sent before the end, because all connections waited.
	// They are in Latency, with the time that they had waited by then.
	Unsent int64 `json:"unsent_batches,omitempty"`

	Generator *Generator `json:"generator,omitempty"`
	// Delay (open loop) is how late the generator sent batches whose connection was free.
	Delay    *Latency `json:"generator_delay_ms,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// ErrorCount is how many batches ended in an error of one kind.
type ErrorCount struct {
	Code    string `json:"error_code"`
	Batches int64  `json:"batches"`
	First   string `json:"first"`
}

// Generator is what the generator itself used.
type Generator struct {
	CPUSeconds float64 `json:"cpu_seconds"`
	Cores      float64 `json:"cores"` // that it kept busy
	Of         int     `json:"of_cores"`
}

// Latency of batches, in milliseconds.
type Latency struct {
	Mean float64 `json:"mean"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p99_9"`
	Max  float64 `json:"max"`
	// Curve is the latency that one batch in so many exceeds.
	Curve []CurvePoint `json:"curve"`
}

// CurvePoint is a point of a curve by percentile.
type CurvePoint struct {
	OneIn float64 `json:"one_in"` // 100 is the 99th percentile
	Value float64 `json:"ms"`
}

func milliseconds(ns float64) float64 { return math.Round(ns/1e3) / 1e3 }

// latency reads a histogram.
func latency(h *hdrhistogram.Histogram) *Latency {
	at := func(percent float64) float64 { return milliseconds(float64(h.ValueAtQuantile(percent))) }
	l := &Latency{Mean: milliseconds(h.Mean()), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9), Max: milliseconds(float64(h.Max()))}
	const perDecade = 10
	n := float64(h.TotalCount())
	for i := 0; ; i++ {
		oneIn := math.Pow(10, float64(i)/perDecade)
		if oneIn >= n {
			break
		}
		l.Curve = append(l.Curve, CurvePoint{math.Round(oneIn*100) / 100, at(100 - 100/oneIn)})
	}
	if n > 0 {
		l.Curve = append(l.Curve, CurvePoint{n, l.Max})
	}
	return l
}

// result reads what was recorded by the time the connections had ended.
func (r *run) result(ended time.Time) *Result {
	c := r.recorder
	c.mu.Lock()
	defer c.mu.Unlock()
	stopped := ended
	if stopped.After(r.end) {
		stopped = r.end
	}
	res := &Result{Loop: "closed", Batches: c.batches, Items: c.items, BytesSent: c.bytesOut, BytesReceived: c.bytesIn, Errors: c.sorted()}
	// The last answer may have come after the end.
	last := stopped
	if c.last.After(last) {
		last = c.last
	}
	res.Seconds = max(last.Sub(r.measured).Seconds(), 1e-9)
	res.BatchesPerSec, res.ItemsPerSec = float64(c.batches)/res.Seconds, float64(c.items)/res.Seconds
	if c.items > 0 {
		res.DuplicateShare = float64(c.duplicates) / float64(c.items)
	}
	if r.o.Input != nil {
		res.InputPasses = r.o.Input.Passes()
	} else if c.items > 0 {
		sent := float64(c.expected) / float64(c.items)
		res.SentDuplicateShare = &sent
	}
	if !r.schedule.open() {
		res.Latency = *latency(c.sent)
		res.Corrected = latency(corrected(c.sent, c.sent.ValueAtQuantile(50)))
		return res
	}
	res.Loop = "open"
	r.schedule.unsent(stopped, func(due time.Time) {
		res.Unsent++
		note(c.due, stopped.Sub(due))
	})
	res.Latency, res.Sent, res.Delay = *latency(c.due), latency(c.sent), latency(c.late)
	return res
}

const (
	maxShareOff = 0.001 // by which the share of duplicates may differ
	maxCPU      = 0.85  // of the processors, for the generator
	minDelay    = 0.5   // milliseconds of the generator's own delay that are worth a warning
)

// warn adds warnings about what makes the result less meaningful than it seems.
func (res *Result) warn(o Options, c *recorder) {
	say := func(format string, args ...any) { res.Warnings = append(res.Warnings, fmt.Sprintf(format, args...)) }
	if sent := res.SentDuplicateShare; sent != nil && math.Abs(res.DuplicateShare-*sent) > maxShareOff {
		say("%.2f %% of the items were duplicates for the server, and %.2f %% were sent: the filter takes new items for seen (it may be past its capacity, or know them from an earlier run with this seed), or it forgets", 100*res.DuplicateShare, 100**sent)
	}
	if g := res.Generator; g != nil && g.Cores > maxCPU*float64(g.Of) {
		say("the generator itself kept %.1f of %d processors busy: it may be the limit, not the daemon; run it on another machine, or on several", g.Cores, g.Of)
	}
	if d := res.Delay; d != nil && d.P99 > minDelay && d.P99 > res.Latency.P99/10 {
		say("the generator itself was late: one batch in a hundred was sent more than %.1f ms after it was due though its connection was free, which is in the latencies; this machine is too busy", d.P99)
	}
	// The last batches that are due may be late by chance.
	if res.Unsent > int64(o.Connections) && res.Unsent > res.Batches/1000 {
		say("%d batches that were due were not sent before the end, as all %d connections waited for answers: the rate is more than the daemon takes over so many connections; latencies have the time that those batches had waited", res.Unsent, o.Connections)
	}
	if n := c.due.TotalCount(); n > 0 && n < 1000 {
		say("%d batches are too few for the percentile 99.9: it is the slowest one", n)
	}
	if res.InputPasses > 1 {
		say("the input was read %d times: what follows its first end are duplicates", res.InputPasses)
	}
}
