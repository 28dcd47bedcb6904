package table

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Entries of any kind, in any order, come back from their short form, which takes half the room for
// keys that were added or removed.
func TestPack(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 2))
	for n := range 200 {
		var entries []bloom.Hash
		room, plain := 0, 0
		for range n {
			key, what := bloom.Hash{Hi: rnd.Uint64()}, bloom.Hash{Hi: rnd.Uint64N(2)}
			if n%2 == 1 && rnd.IntN(3) == 0 {
				key.Lo = rnd.Uint64()
				what = tagged(tagReservation+rnd.Uint64N(tagClock), rnd.Int64(), rnd.Uint64())
				room, plain = room+2*((plain+1)/2)+2, -1
			}
			plain++
			entries = append(entries, key, what)
		}
		room += 2 * ((plain + 1) / 2)
		packed := pack(slices.Clone(entries))
		if len(packed) != room {
			t.Errorf("%d entries take %d elements, want %d", n, len(packed), room)
		}
		if got := unpack(packed); !slices.Equal(got, entries) {
			t.Fatalf("%d entries: got %x\nwant %x", n, got, entries)
		}
	}
}

// A new key is taken for a seen one only if all bits that are kept are the same.
func TestNoRaceShortKeysAreWhole(t *testing.T) {
	table := closing(t, NewShort())
	rnd := rand.New(rand.NewPCG(3, 4))
	const n = 300_000
	all, fresh := make([]bloom.Hash, n), make([]bool, n)
	for i := range all {
		all[i] = bloom.Hash{Hi: rnd.Uint64(), Lo: rnd.Uint64()}
	}
	add(t, table, all)
	for bit := range 64 {
		near := slices.Clone(all)
		for i := range near {
			near[i].Hi ^= 1 << bit
		}
		if table.Has(near, Still, fresh); slices.Contains(fresh, false) {
			t.Errorf("a key that differs in bit %d is seen", bit)
		}
		for i := range near {
			near[i].Hi, near[i].Lo = all[i].Hi, ^all[i].Lo
		}
		if table.Has(near, Still, fresh); slices.Contains(fresh, true) {
			t.Fatal("a key that differs in Lo is new")
		}
	}
}
