package status

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/tally"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
)

const (
	// sampleEvery and kept make ten minutes.
	sampleEvery = 5 * time.Second
	kept        = 120
	// maxSampled is of how many filters there is a history, the first ones by id: 3 MB at most.
	maxSampled = 1000
	// lately is over how many samples a present rate is taken: a minute.
	lately = 12
)

// history has samples of each filter, and of the store.
type history struct {
	mu    sync.Mutex
	of    map[*engine.Life]*ring
	store stored
}

// ring are the last samples of one filter.
type ring struct {
	at      [kept]sample
	n       int          // ever taken
	was     tally.Counts // at the last one
	touched time.Time    // when the last one was taken
}

// sample is what a filter got in one interval.
type sample struct{ fresh, seen, checked uint32 }

// stored is how long the store takes.
type stored struct {
	batches, was uint64
	total, took  time.Duration
}

func newHistory() history { return history{of: map[*engine.Life]*ring{}} }

// Sample samples until ctx ends.
func (s *Status) Sample(ctx context.Context) {
	s.Take()
	for range repeat.Every(ctx, sampleEvery) {
		s.Take()
	}
}

// Take takes one sample.
func (s *Status) Take() {
	filters := s.Engine.Filters()
	filters = filters[:min(len(filters), maxSampled)]
	h, now := &s.history, s.Now()
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, f := range filters {
		counts := s.Tallies.Counts(f)
		r := h.of[f.Life()]
		if r == nil {
			h.of[f.Life()] = &ring{was: counts, touched: now}
			continue
		}
		r.at[r.n%kept] = sample{uint32(counts.New - r.was.New), uint32(counts.Seen - r.was.Seen), uint32(counts.Checked - r.was.Checked)}
		r.n++
		r.was, r.touched = counts, now
	}
	for life, r := range h.of {
		if r.touched != now { // it was dropped
			delete(h.of, life)
		}
	}
	batches, total := s.Tallies.StoreTime()
	h.store.was, h.store.took = batches-h.store.batches, total-h.store.total
	h.store.batches, h.store.total = batches, total
}

// Rates are items a second, over the last minute.
type Rates struct{ New, Seen, Checked float64 }

// rates returns the present rates of a filter, and its samples, the oldest first.
func (h *history) rates(f *engine.Filter) (now Rates, all []sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.of[f.Life()]
	if r == nil {
		return Rates{}, nil
	}
	for i := max(0, r.n-kept); i < r.n; i++ {
		all = append(all, r.at[i%kept])
	}
	last := all[max(0, len(all)-lately):]
	for _, s := range last {
		now.New += float64(s.fresh)
		now.Seen += float64(s.seen)
		now.Checked += float64(s.checked)
	}
	if seconds := sampleEvery.Seconds() * float64(len(last)); seconds > 0 {
		now = Rates{now.New / seconds, now.Seen / seconds, now.Checked / seconds}
	}
	return now, all
}

// perBatch is how long the store took for a batch in the last interval; 0: there was none.
func (h *history) perBatch() time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.store.was == 0 {
		return 0
	}
	return h.store.took / time.Duration(h.store.was)
}

// series are the rates of samples, of new items and of seen ones, a value for each of every samples.
func series(all []sample, every int) (fresh, seen []float64) {
	for end := len(all); end > 0; end -= every {
		var s sample
		from := max(0, end-every)
		for _, one := range all[from:end] {
			s.fresh += one.fresh
			s.seen += one.seen + one.checked
		}
		seconds := sampleEvery.Seconds() * float64(end-from)
		fresh, seen = append(fresh, float64(s.fresh)/seconds), append(seen, float64(s.seen)/seconds)
	}
	slices.Reverse(fresh)
	slices.Reverse(seen)
	return fresh, seen
}

// Sampled is of how many filters there is a history.
func (s *Status) Sampled() int {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return len(s.history.of)
}
