package poisson

import (
	"math"
	"testing"
)

// The moments of the distribution are known.
func TestMeanHasTheMomentsOfTheDistribution(t *testing.T) {
	for _, mu := range []float64{0, 1e-9, 0.3, 1, 7.5, 400, 4e6} {
		mean := Mean(mu, func(n uint64) float64 { return float64(n) })
		variance := Mean(mu, func(n uint64) float64 { return (float64(n) - mu) * (float64(n) - mu) })
		if math.Abs(mean-mu) > 1e-6*mu || math.Abs(variance-mu) > 1e-6*mu {
			t.Errorf("mean %v: got %v and the variance %v", mu, mean, variance)
		}
	}
	if got, want := Mean(2, func(n uint64) float64 { return math.Pow(0.5, float64(n)) }), math.Exp(-1); math.Abs(got-want) > 1e-12 {
		t.Errorf("generating function: got %v, want %v", got, want)
	}
	if got := Mean(-1, func(n uint64) float64 { return float64(n) + 5 }); got != 5 {
		t.Errorf("negative mean: got %v, want f(0)", got)
	}
}
