//go:build !amd64

package bloom

// addKeys adds a chunk of keys; the caller holds the lock.
func addKeys(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	return addKeysGo(blocks, keys, fresh)
}
