//go:build !amd64 && !arm64

package bloom

// prefetch does nothing where there is no assembly for it.
func prefetch([]block, []Hash) {}
