package bloom

import "golang.org/x/sys/cpu"

// addKeys adds a chunk of keys; the caller holds the lock.
func addKeys(blocks []block, keys []Hash, fresh []bool) (n, set int) {
	if cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT {
		return addKeysAVX2(blocks, keys, fresh)
	}
	return addKeysGo(blocks, keys, fresh)
}

//go:noescape
func addKeysAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)
