package bloom

import "golang.org/x/sys/cpu"

var fastest, fastestPairs = probesOf(portable, portablePairs)

func probesOf(ones, pairs probes) (probes, probes) {
	if cpu.X86.HasAVX2 && cpu.X86.HasPOPCNT {
		ones = probes{addKeysAVX2, hasKeysAVX2, newInAllAVX2}
		pairs = probes{addPairsAVX2, hasPairsAVX2, newInAllPairsAVX2}
	}
	return ones, pairs
}

//go:noescape
func addKeysAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)

//go:noescape
func hasKeysAVX2(blocks []block, keys []Hash, fresh []bool)

//go:noescape
func newInAllAVX2(layers [][]block, keys []Hash, fresh []bool)

//go:noescape
func addPairsAVX2(blocks []block, keys []Hash, fresh []bool) (n, set int)

//go:noescape
func hasPairsAVX2(blocks []block, keys []Hash, fresh []bool)

//go:noescape
func newInAllPairsAVX2(layers [][]block, keys []Hash, fresh []bool)
