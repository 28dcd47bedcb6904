//go:build !race

package body

// spoil works only in tests with the race detector.
func spoil([]byte) {}
