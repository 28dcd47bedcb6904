//go:build amd64 || arm64

package scaling

// fetch asks the processor for the bytes of the bits at places.
//
//go:noescape
func fetch(bits []byte, places []uint64)
