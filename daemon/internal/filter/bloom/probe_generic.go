//go:build !amd64

package bloom

// addKeys adds a chunk of keys; the caller holds the lock.
func addKeys(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	return addKeysGo(blocks, keys, fresh)
}

// hasKeys probes a chunk of keys; the caller holds the lock.
func hasKeys(blocks []block, keys []Hash, fresh []bool) { hasKeysGo(blocks, keys, fresh) }

// newInAll probes a chunk of keys in several layers, at least one; the caller holds their locks.
func newInAll(layers [][]block, keys []Hash, fresh []bool) { newInAllGo(layers, keys, fresh) }
