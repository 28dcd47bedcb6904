package dispatch

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// TestShare compares shares of random demands with the promises of docs/downloader.md.
func TestShare(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		demands := make([]*demand, r.IntN(12))
		for i := range demands {
			demands[i] = &demand{job: download.Job{Priority: r.IntN(4)}, room: 1 + r.IntN(20), outstanding: r.IntN(3)}
		}
		free := r.IntN(140) - 20
		share(demands, free)
		given, floor := 0, 0
		for _, a := range demands {
			given += a.n
			if a.outstanding == 0 {
				floor++
				if a.n < 1 {
					t.Fatalf("seed %d: a job with nothing got nothing", seed)
				}
			}
			if a.n < 0 || a.n > a.room {
				t.Fatalf("seed %d: %d of %d", seed, a.n, a.room)
			}
			for _, b := range demands {
				least := 0 // what b gets in any case
				if b.outstanding == 0 {
					least = 1
				}
				switch {
				case b.job.Priority < a.job.Priority && a.n < a.room && b.n > least:
					t.Fatalf("seed %d: a lower priority got %d while a higher one got %d of %d", seed, b.n, a.n, a.room)
				case b.job.Priority == a.job.Priority && a.n < a.room && b.n-least > a.n+1:
					t.Fatalf("seed %d: of the same priority one got %d, one %d of %d", seed, b.n, a.n, a.room)
				}
			}
		}
		if given > max(free, 0)+floor || given > max(free, floor) {
			t.Fatalf("seed %d: %d given of %d, with %d in any case", seed, given, free, floor)
		}
		room := 0
		for _, d := range demands {
			room += d.room
		}
		if given < min(free, room) {
			t.Fatalf("seed %d: %d given of %d, for %d", seed, given, free, room)
		}
	}
}

func TestRank(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_000)
	after := func(d time.Duration, lane download.Lane, priority int) int64 { return Rank(now.Add(d), lane, priority) }
	for name, test := range map[string]struct{ first, then int64 }{
		"a step higher, almost a step later": {after(PriorityStep-time.Millisecond, download.Normal, 4), after(0, download.Normal, 3)},
		"a step lower, a step earlier":       {after(0, download.Normal, 3), after(PriorityStep+time.Millisecond, download.Normal, 4)},
		"urgency, a hundred years later":     {after(100*365*24*time.Hour, download.Urgency, 0), after(0, download.Normal, 9)},
		"urgency by priority":                {after(time.Second, download.Urgency, 1), after(0, download.Urgency, 0)},
		"foreign as normal":                  {after(0, download.Foreign, 1), after(0, download.Normal, 0)},
	} {
		if test.first >= test.then {
			t.Errorf("%s: %d is not before %d", name, test.first, test.then)
		}
	}
}
