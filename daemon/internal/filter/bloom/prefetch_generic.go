//go:build !amd64 && !arm64

package bloom

// prefetchBlocks does nothing where there is no assembly for it.
func prefetchBlocks(uintptr, uint64, []Hash) {}
