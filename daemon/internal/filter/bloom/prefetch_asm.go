//go:build amd64 || arm64

package bloom

//go:noescape
func prefetchBlocks(start uintptr, blocks uint64, keys []Hash)
