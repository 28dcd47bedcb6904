package lab

import "math"

// Interval returns the 95 % interval of a share that was observed as hits in n cases (Wilson 1927).
func Interval(hits, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(hits)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, middle-half), min(1, middle+half)
}
