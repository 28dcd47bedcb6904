package bloom

// Prefetcher asks the processor for the blocks of keys, so that the probes that follow find
// them in its cache. Waiting for one cache miss after the other is most of the cost of a
// large map. The zero Prefetcher does nothing.
//
// It may outlive its map: then, and on processors without assembly for it, it is of no use, and
// does no harm. So it has no pointer, which would point to memory that is gone.
type Prefetcher struct {
	start  uintptr
	blocks uint64
}

// Ahead is how many keys a caller that hashes them should prefetch at a time: the processor
// then waits for so few blocks at once that it can hash the next items meanwhile. It cannot if
// there are more blocks than it keeps track of (some 12 to 24).
const Ahead = 8

// MostAhead is how many keys may be prefetched before the first is probed. Their blocks
// (256 KiB) fit the second-level cache.
const MostAhead = 4096

// Prefetch asks for the blocks of keys.
func (p Prefetcher) Prefetch(keys []Hash) {
	if p.blocks > 0 {
		prefetchBlocks(p.start, p.blocks, keys)
	}
}

// Prefetcher returns a Prefetcher for callers of Add and Has that hash the keys themselves.
// Both methods prefetch all keys too, which costs little if it was done before.
func (m *Map) Prefetcher() Prefetcher { return m.ahead }

// Prefetcher is Map.Prefetcher for the last layer, where most of the items that are asked for are.
// Those that are not in it are fetched from the other layers a few keys ahead of their probe.
func (g *Growing) Prefetcher() Prefetcher {
	layers := g.top.Load().layers
	return layers[len(layers)-1].ahead
}
