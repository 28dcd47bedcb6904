package simhash

import (
	"math"
	"math/bits"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/poisson"
)

// Expected returns how many bytes of memory an index takes on average if it remembers n
// documents with evenly spread, distinct fingerprints, each with an id of idBytes. For a real
// index, Bytes agrees within a few percent; an index whose fingerprints have much in common
// takes up to twice as much, and so does one in which every bucket is large enough to be
// divided.
func Expected(distance int, n uint64, idBytes int) uint64 {
	if n == 0 {
		return 0
	}
	record := (textsHead + uint64(idBytes) + unit - 1) / unit * unit
	perChunk := textsChunk / record
	all := (n+perChunk-1)/perChunk*textsChunk + expectedColumn(8*n) + expectedColumn(4*n)

	t := newTables(evenMasks(distance+1), regionBits, foldAt)
	r := region{foldAt: foldAt, buckets: make([]bucket, len(t.groups)<<t.shift)}
	for i := range t.regions { // the first ones have buckets of all groups
		words, entries := 0.0, 0.0
		for _, g := range t.groups {
			buckets := uint64(1) << bits.OnesCount64(g.mask)
			if uint64(i)<<t.shift >= buckets {
				continue
			}
			here, load := float64(min(buckets, 1<<t.shift)), float64(n)/float64(buckets)
			words += here * poisson.Mean(load, func(n uint64) float64 { return float64(r.size(room(uint32(n)))) })
			entries += here * load
		}
		size := max(regionBytes, 4*words*(1+expectedSpare))
		all += uint64(-math.Expm1(-entries) * (size + float64(r.bytes())))
	}
	return all
}

// expectedSpare is the share of a region that is spare, on average: of blocks that were left, and
// for those to come. It was measured.
const expectedSpare = 0.15

// expectedColumn is how many bytes a column has in which so many are used.
func expectedColumn(bytes uint64) uint64 {
	has := 0
	for uint64(has) < bytes {
		has += columnStep(has)
	}
	return uint64(has)
}
