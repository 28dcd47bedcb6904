//go:build !amd64

package bloom

var fastest, fastestPairs = portable, portablePairs
