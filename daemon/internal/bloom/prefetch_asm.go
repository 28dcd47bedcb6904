//go:build amd64 || arm64

package bloom

// prefetch asks the processor for the blocks of keys, so that the probes that follow
// find them in its cache. Waiting for one cache miss after the other is most of the
// cost of a large map.
func prefetch(blocks []block, keys []Hash) { prefetchBlocks(blocks, keys) }

//go:noescape
func prefetchBlocks(blocks []block, keys []Hash)
