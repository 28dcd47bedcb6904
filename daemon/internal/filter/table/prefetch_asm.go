//go:build amd64 || arm64

package table

// prefetchLines asks the processor for the 64 bytes at each of the addresses, and for the next 64.
//
//go:noescape
func prefetchLines(at []uintptr)
