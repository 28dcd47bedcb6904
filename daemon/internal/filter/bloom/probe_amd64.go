package bloom

import "golang.org/x/sys/cpu"

// addKeys adds a chunk of keys; the caller holds the lock.
func addKeys(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	if cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT {
		return addKeysAVX2(blocks, keys, fresh)
	}
	return addKeysGo(blocks, keys, fresh)
}

// hasKeys probes a chunk of keys; the caller holds the lock.
func hasKeys(blocks []block, keys []Hash, fresh []bool) {
	if cpu.X86.HasAVX2 {
		hasKeysAVX2(blocks, keys, fresh)
		return
	}
	hasKeysGo(blocks, keys, fresh)
}

// newInAll probes a chunk of keys in several layers, at least one; the caller holds their locks.
func newInAll(layers [][]block, keys []Hash, fresh []bool) {
	if cpu.X86.HasAVX2 {
		newInAllAVX2(layers, keys, fresh)
		return
	}
	newInAllGo(layers, keys, fresh)
}

//go:noescape
func addKeysAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)

//go:noescape
func hasKeysAVX2(blocks []block, keys []Hash, fresh []bool)

//go:noescape
func newInAllAVX2(layers [][]block, keys []Hash, fresh []bool)
