package registry

import (
	"encoding/binary"
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// MapPrefix returns the prefix of the keys of a bit-map. The keys that a dropped filter of the
// same name has left do not begin with it, if the filter was created by this version.
func MapPrefix(e Entry) string {
	prefix := fmt.Sprintf("urifilter:{%d-%s", e.Spec.ID, e.Spec.Name)
	if e.Tag != "" {
		prefix += ":" + e.Tag
	}
	return prefix
}

// StripeKey returns the key of a stripe of a bit-map.
func StripeKey(e Entry, i int) string { return fmt.Sprintf("%s:%d}", MapPrefix(e), i) }

// UnackedKey returns the key of the set of unacknowledged items.
func UnackedKey(e Entry) string { return MapPrefix(e) + "}:unacknowledged" }

// Foreign returns the error for a key that is not ours.
func Foreign(key string) error {
	return fmt.Errorf("key %s: holds data of another program\nhint: give urifilter a database of its own (redis.db), or rename that key", key)
}

// ItemPrefix returns the prefix of the keys of a filter that is not a bit-map. The keys that a
// dropped filter of the same id has left do not begin with it.
func ItemPrefix(e Entry) string {
	var b []byte
	for _, n := range []uint64{e.Seed, e.Gen, uint64(e.Born)} {
		b = binary.BigEndian.AppendUint64(b, n)
	}
	return fmt.Sprintf("urifilter:{%d:%08x:", e.Spec.ID, bloom.Checksum(b))
}
