// Package poisson computes means over a Poisson-distributed number, such as that of the items
// which a hash puts into one of many places.
package poisson

import "math"

// Mean returns the mean of f over a Poisson-distributed number with the mean mu. f is called with
// the values within nine standard deviations and 30 of it, in ascending order. A negative mu counts as
// 0.
func Mean(mu float64, f func(n uint64) float64) float64 {
	if !(mu > 0) {
		return f(0)
	}
	width := 9*math.Sqrt(mu) + 30
	first, last := math.Floor(max(0, mu-width)), math.Ceil(mu+width)
	log := math.Log(mu)
	sum, weight := 0.0, 0.0
	for n := first; n <= last; n++ {
		lgamma, _ := math.Lgamma(n + 1)
		p := math.Exp(n*log - mu - lgamma)
		sum, weight = sum+p*f(uint64(n)), weight+p
	}
	return sum / weight // corrects for the values left out, and for rounding
}
