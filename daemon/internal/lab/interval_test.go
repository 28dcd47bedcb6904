package lab

import (
	"math"
	"testing"
)

// Values from tables of the binomial distribution.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		hits, n   int
		low, high float64
	}{
		{10, 100, 0.0552, 0.1744}, {0, 100, 0, 0.0370}, {100, 100, 0.9630, 1}, {5000, 10_000, 0.4902, 0.5098},
	} {
		low, high := Interval(c.hits, c.n)
		if math.Abs(low-c.low) > 1e-4 || math.Abs(high-c.high) > 1e-4 {
			t.Errorf("%d of %d: got %v to %v, want %v to %v", c.hits, c.n, low, high, c.low, c.high)
		}
	}
}
