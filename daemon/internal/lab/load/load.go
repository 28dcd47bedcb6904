// Package load sends batches to the filter call of a daemon, and measures what became of them:
// in a closed loop, where each connection sends when it has its answer, or in an open one, where
// batches are due at a rate that no answer can slow down, and the wait of batches that could not
// be sent in time counts (leaving it out is called coordinated omission: Tene, How NOT to Measure
// Latency, 2013).
//
// It makes no filters, and judges nothing but its own measurement ([Result.Warnings]).
package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"time"
)

// Options say what is sent, where, and for how long.
type Options struct {
	// Dial opens a connection to the daemon, with TLS if the daemon uses it.
	Dial func(ctx context.Context) (net.Conn, error)
	// Host, Prefix and Token go into requests: the server's name, the path of its URL
	// without a slash at the end, and the token, "" for none.
	Host, Prefix, Token string
	// Filter is the filter that receives the batches.
	Filter string

	Protocol    Protocol
	Connections int
	Batch       int // items
	// Rate is how many items a second are due; 0: a closed loop.
	Rate float64
	// WarmUp comes before Duration, and is not in the result.
	WarmUp, Duration time.Duration
	Timeout          time.Duration // of one batch

	// Input has the items. nil: URIs are made, and a share Duplicates of them, 0 to 1, repeats
	// others; Seed chooses them.
	Input      *Input
	Duplicates float64
	Seed       uint64

	// Show receives the progress of the run from time to time; nil discards it.
	Show func(Progress)
	// Sleep waits until a batch is due; nil: as precisely as the system can.
	Sleep func(ctx context.Context, until time.Time)
}

// Progress is the progress of a run.
type Progress struct {
	WarmUp      bool
	Elapsed, Of time.Duration // without the warm-up
	ItemsPerSec float64       // since the last report
	P50, P99    time.Duration // so far
	Errors      int64
}

const showEvery = 250 * time.Millisecond

// run is one run. It is set up before the connections begin.
type run struct {
	o             Options
	schedule      *schedule
	recorder      *recorder
	measured, end time.Time
}

// PrimeError says that the first batch, before the run, did not get through.
type PrimeError struct {
	Code string // error_code, or what happened to the connection
	Err  error
}

func (e *PrimeError) Error() string { return "first batch: " + e.Err.Error() }

// Unwrap returns the cause.
func (e *PrimeError) Unwrap() error { return e.Err }

// Run sends until the time is over or ctx ends; what was measured until then is the result.
// Batches that fail are counted. An error means that nothing could be measured, or that the
// input failed.
func Run(ctx context.Context, o Options) (*Result, error) {
	if o.Sleep == nil {
		o.Sleep = sleepPrecisely
	}
	r := &run{o: o, recorder: newRecorder()}
	workers := make([]*worker, o.Connections)
	for i := range workers {
		w := &worker{run: r, request: newRequest(o.Protocol, o.Host, o.Prefix, o.Token, o.Filter), source: o.Input}
		if o.Input == nil {
			w.source = newGenerated(o.Seed, i, o.Duplicates)
		}
		workers[i] = w
		defer w.close()
		if err := w.prime(ctx); err != nil {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			return nil, &PrimeError{codeOf(err), err}
		}
		w.source.settle(true)
	}
	start := time.Now()
	r.measured = start.Add(o.WarmUp)
	r.end = r.measured.Add(o.Duration)
	r.schedule = &schedule{start: start, end: r.end}
	if o.Rate > 0 {
		r.schedule.every = float64(o.Batch) / o.Rate * float64(time.Second)
	}
	return r.execute(ctx, workers)
}

// execute runs the connections, and measures the processor time that this process uses meanwhile.
func (r *run) execute(ctx context.Context, workers []*worker) (*Result, error) {
	working, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	errs := make(chan error, len(workers))
	var all, watching sync.WaitGroup
	for _, w := range workers {
		all.Go(func() {
			if err := w.work(working); err != nil {
				errs <- err
				cancel(err)
			}
		})
	}
	done := make(chan struct{})
	var cpu time.Duration // at the beginning of the measurement
	var known bool
	watching.Go(func() { cpu, known = r.watch(working, done) })
	all.Wait()
	ended := time.Now()
	after, _ := cpuTime()
	close(done)
	watching.Wait()
	select {
	case err := <-errs:
		return nil, fmt.Errorf("input: %w", err)
	default:
	}
	result := r.result(ended)
	result.Interrupted = ctx.Err() != nil
	if known {
		result.Generator = &Generator{CPUSeconds: (after - cpu).Seconds(), Cores: (after - cpu).Seconds() / result.Seconds, Of: runtime.GOMAXPROCS(0)}
	}
	result.warn(r.o, r.recorder)
	return result, nil
}

// watch notes the processor time at the end of the warm-up, and shows the progress of the run.
func (r *run) watch(ctx context.Context, done <-chan struct{}) (cpu time.Duration, known bool) {
	begun, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-done:
			cancel()
		case <-begun.Done():
		}
	}()
	var items int64
	last := time.Now()
	for warm := true; ; {
		next := time.Now().Add(showEvery)
		if warm && next.After(r.measured) {
			next = r.measured
		}
		sleepUntil(begun, next)
		if begun.Err() != nil {
			return cpu, known
		}
		now := time.Now()
		if warm && !now.Before(r.measured) {
			warm = false
			cpu, known = cpuTime()
		}
		if r.o.Show != nil {
			items, last = r.show(now, items, last), now
		}
	}
}

func (r *run) show(now time.Time, items int64, last time.Time) int64 {
	c := r.recorder
	c.mu.Lock()
	p := Progress{
		WarmUp: now.Before(r.measured), Elapsed: min(max(0, now.Sub(r.measured)), r.o.Duration), Of: r.o.Duration, Errors: c.allErrors,
		P50: time.Duration(c.due.ValueAtQuantile(50)), P99: time.Duration(c.due.ValueAtQuantile(99)),
	}
	all := c.allItems
	c.mu.Unlock()
	if d := now.Sub(last); d > 0 {
		p.ItemsPerSec = float64(all-items) / d.Seconds()
	}
	r.o.Show(p)
	return all
}

// Check says what is wrong with options, nil if nothing is.
func (o *Options) Check() error {
	switch {
	case o.Connections < 1 || o.Connections > 10_000:
		return fmt.Errorf("connections %d: want 1 to 10000", o.Connections)
	case o.Batch < 1 || o.Batch > 1_000_000:
		return fmt.Errorf("batch %d: want 1 to 1000000 items", o.Batch)
	case !(o.Duplicates >= 0 && o.Duplicates <= 1):
		return fmt.Errorf("duplicates %v: want a share, 0 to 1", o.Duplicates)
	case o.Duration < time.Millisecond || o.Duration > 24*time.Hour:
		return fmt.Errorf("duration %s: want 1ms to 24h", o.Duration)
	case o.WarmUp < 0 || o.WarmUp > time.Hour:
		return fmt.Errorf("warm-up %s: want 0 to 1h", o.WarmUp)
	case o.Input != nil && o.Duplicates != 0:
		return errors.New("duplicates: are in the input, or are not")
	}
	return nil
}
