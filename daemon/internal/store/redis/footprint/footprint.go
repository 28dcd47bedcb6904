// Package footprint foretells what filters take of the memory of Redis.
package footprint

import (
	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/exact"
)

// What an item takes in Redis 7 with its own allocator: a key with a deadline, and a member of
// one of the sets of integers.
const (
	timedItemBytes = 135
	exactItemBytes = 9.5
)

// stripeRoom is what Redis takes of a byte of a large string, which is rounded up to the
// allocator's next size: 5 MiB for a stripe of 4 MiB.
const (
	stripeBytes = 4 << 20
	stripeRoom  = 5 << 20
	ahead       = 1 << 20 // that a string may have room for at its end; half of it is expected
	keyBytes    = 200     // of a key beside its value, and of what the registry has of a filter
)

// Expected is how much a filter takes of one Redis's memory (used_memory), replicas not counted;
// bits is the size of its bit-map. Filters of other kinds are predicted from half a million
// items on; of the last stripe half a MiB is uncertain. ok is false for kinds that Redis does not keep.
func Expected(spec configs.Filter, items, bits uint64) (bytes uint64, ok bool) {
	switch {
	case spec.Fingerprints():
		bytes, _ = exact.ExpectedFingerprints(spec.Bound().Items, items)
		return bytes, true
	case spec.HasBitMap():
		whole, rest := bits/stripeBytes, bits%stripeBytes
		bytes = whole * (stripeRoom + keyBytes)
		if rest > 0 {
			bytes += rest + min(rest, ahead)/2 + keyBytes
		}
		return bytes, true
	case configs.Expires(spec.Kind):
		return uint64(timedItemBytes * float64(items)), true
	case configs.HasHashes(spec.Kind):
		return uint64(exactItemBytes * float64(items)), true
	}
	return 0, false
}

// What an item takes in a mirror that is bounded.
const (
	recentItemBytes    = 8
	mirroredExactBytes = 19
)

// Mirror is how much memory of each daemon the mirror of a filter takes at most, and about how many items it
// has then, if redis.mirror_bytes is bound (0: none) and the daemon has no other filter; memory is what the
// embedded store would take, 0 if it does not keep such filters. That of a timing filter has what this daemon
// has accepted, and no bound.
func Mirror(spec configs.Filter, items, memory, bound uint64) (bytes, mirrored uint64) {
	switch {
	case spec.HasBitMap() && budget.New(bound, 0).TakeWhole(memory), configs.Expires(spec.Kind):
		return memory, items
	case spec.HasBitMap():
		return bound, min(items, bound/recentItemBytes)
	case bound == 0:
		bound = budget.Unbounded
	}
	if memory == 0 {
		memory = items * mirroredExactBytes
	}
	return min(bound, memory), min(items, bound/mirroredExactBytes)
}
