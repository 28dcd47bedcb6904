//go:build !race

package body

// spoil does something in tests with the race detector only.
func spoil([]byte) {}
