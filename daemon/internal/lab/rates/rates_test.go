package rates

import (
	"context"
	"errors"
	"math"
	"testing"
)

// Rates that are in every table of Bloom filters (Cao 1998, and many after it).
func TestClassicTable(t *testing.T) {
	for _, c := range []struct {
		bits float64
		k    int
		want float64
	}{{2, 1, 0.393}, {2, 2, 0.400}, {8, 6, 0.0216}, {10, 7, 0.00819}, {16, 8, 0.000574}, {32, 8, 0.00000573}} {
		if got := Classic(c.bits, c.k); math.Abs(got-c.want) > 0.002*c.want {
			t.Errorf("%v bits, k %d: got %v, want %v", c.bits, c.k, got, c.want)
		}
	}
	for bits, want := range map[float64]int{2: 1, 3: 2, 8: 6, 10: 7, 16: 11, 32: 22} {
		if got := BestK(bits); got != want {
			t.Errorf("best k of %v bits: got %d, want %d", bits, got, want)
		}
	}
}

// What is measured is what was computed: of each cell with hits within five standard
// deviations and a little, for the filters are of a finite size.
func TestTable(t *testing.T) {
	t.Parallel()
	calls := 0
	rows, err := Table(t.Context(), 20_000, 40_000, func(done, of int) { calls++ })
	if err != nil || len(rows) != MaxBits-MinBits+1 || calls != len(rows)+1 {
		t.Fatalf("got %d rows, %d calls, %v", len(rows), calls, err)
	}
	for _, row := range rows {
		if len(row.Classic) != MaxK {
			t.Fatalf("%d bits: %d cells", row.Bits, len(row.Classic))
		}
		for _, c := range append(row.Classic, row.Blocked) {
			want := c.Computed * float64(c.Asked)
			if math.Abs(float64(c.Seen)-want) > 5*math.Sqrt(want)+0.04*want+2 {
				t.Errorf("%d bits, k %d: got %d of %d, want %.1f", row.Bits, c.K, c.Seen, c.Asked, want)
			}
			if c.Low > c.Measured || c.High < c.Measured {
				t.Errorf("%d bits, k %d: %v is not in %v to %v", row.Bits, c.K, c.Measured, c.Low, c.High)
			}
		}
		if row.Blocked.Computed <= row.Classic[MaxK-1].Computed {
			t.Errorf("%d bits: blocks cost nothing: %v", row.Bits, row.Blocked.Computed)
		}
	}
}

// At its capacity a filter keeps what it promises, and beyond it does what is predicted.
func TestMeasure(t *testing.T) {
	t.Parallel()
	last := uint64(0)
	f, err := Measure(t.Context(), 200_000, 0.001, 300_000, func(done, _ uint64) { last = done })
	if err != nil || len(f.Levels) != 4 || last != 300_000 {
		t.Fatalf("got %+v, %v; told last %d", f, err, last)
	}
	for _, l := range f.Levels {
		want := l.Computed * float64(l.Asked)
		if math.Abs(float64(l.Seen)-want) > 6*math.Sqrt(want)+0.05*want+3 {
			t.Errorf("load %v: got %d of %d, want %.1f", l.Load, l.Seen, l.Asked, want)
		}
		if l.Load <= 1 && l.Low > f.ErrorRate || l.Load > 1 && l.Measured < f.ErrorRate {
			t.Errorf("load %v: %v of promised %v", l.Load, l.Measured, f.ErrorRate)
		}
	}
	if f.K != 8 || f.ClassicK != 10 || math.Abs(f.ClassicBits-14.38) > 0.01 || f.BitsPerItem < f.ClassicBits {
		t.Errorf("got %+v", f)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := Measure(stopped, 1000, 0.01, 1000, func(_, _ uint64) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %v", err)
	}
	if _, err := Table(stopped, 1000, 1000, func(_, _ int) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("a table that is stopped: got %v", err)
	}
	if _, err := Measure(t.Context(), 0, 0.01, 1000, func(_, _ uint64) {}); err == nil {
		t.Error("no capacity: no error")
	}
}
