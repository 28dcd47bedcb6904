package simhash

import (
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
	words := 0.0 // of a region
	for _, g := range t.groups {
		buckets := float64(uint64(1) << bits.OnesCount64(g.mask))
		block := poisson.Mean(float64(n)/buckets, func(n uint64) float64 { return float64(r.size(room(uint32(n)))) })
		words += block * buckets / float64(len(t.regions))
	}
	size := max(regionBytes, 4*words*(1+expectedSpare))
	perRegion := float64(n) * float64(len(t.groups)) / float64(len(t.regions))
	begun := 1 - poisson.Mean(perRegion, func(n uint64) float64 { return float64(1 - min(n, 1)) })
	return all + uint64(begun*float64(len(t.regions))*(size+float64(r.bytes())))
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
