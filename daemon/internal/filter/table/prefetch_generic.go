//go:build !amd64 && !arm64

package table

// prefetchLines does nothing where there is no assembly for it.
func prefetchLines([]uintptr) {}
