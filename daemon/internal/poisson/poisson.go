// Package poisson takes means over a number that is Poisson distributed, as that of the items
// which a hash puts into one of many places is.
package poisson

import "math"

// Mean is the mean of f over a number that is Poisson distributed with the mean mu. f is called
// with what is within nine standard deviations of it, in ascending order. A negative mu is 0.
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
	return sum / weight // of the rest, and of what rounding took
}
