package simhash

import (
	"math/bits"
	"sort"
	"unsafe"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/poisson"
)

// Expected returns how many bytes of memory an index takes on average if it remembers n
// documents with evenly spread, distinct fingerprints, each with an id of idBytes. For a real
// index, Bytes agrees within about one percent; an index whose fingerprints have much in common
// takes up to twice as much, and so does one in which every bucket is large enough to be
// divided.
func Expected(distance int, n uint64, idBytes int) uint64 {
	if n == 0 {
		return 0
	}
	const chunk = chunkLength
	up := func(n, unit uint64) uint64 { return (n + unit - 1) / unit }
	all := up(n, chunk) * chunk * uint64(unsafe.Sizeof(uint64(0))+unsafe.Sizeof(uint32(0)))
	record := up(uint64(textsHead+idBytes), unit) * unit
	all += up(n, textsChunk/record) * textsChunk
	for _, mask := range evenMasks(distance + 1) {
		all += expectedTable(n, bits.OnesCount64(mask))
	}
	return all
}

// expectedTable returns how many bytes the buckets of one group of width bits take.
func expectedTable(n uint64, width int) uint64 {
	buckets := float64(uint64(1) << width)
	mean := float64(n) / buckets
	var rooms []uint64 // the capacities of a bucket that grows
	for room := uint64(0); float64(room) <= 2*mean+100; {
		room += room/4 + 2
		rooms = append(rooms, room)
	}
	each := poisson.Mean(mean, func(entries uint64) float64 {
		if entries == 0 {
			return 0
		}
		i := sort.Search(len(rooms), func(i int) bool { return rooms[i] >= entries })
		size := 4 * float64(rooms[i])
		if i > 0 && rooms[i-1] >= foldAt { // it was enlarged when it held that many
			size = 2*size + float64(unsafe.Sizeof(crowd{}))
		}
		return size
	})
	perPage := min(1<<pageBits, 1<<width)
	pages := max(1, 1<<width>>pageBits)
	untouched := poisson.Mean(mean*float64(perPage), func(entries uint64) float64 {
		if entries == 0 {
			return 1
		}
		return 0
	})
	return uint64(each*buckets + float64(pages)*(1-untouched)*float64(unsafe.Sizeof(page{})))
}
