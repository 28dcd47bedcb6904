package bloom

import "testing"

func TestMissingAndPlace(t *testing.T) {
	m := newMap(t, 3_000_000, 1e-4)
	keys := urlKeys(42, 0, 2000)
	missing := make([]uint8, len(keys))
	m.Missing(keys, missing)
	for i, got := range missing {
		if got != 0xff {
			t.Fatalf("empty map: key %d misses words %08b", i, got)
		}
	}
	fresh := make([]bool, len(keys))
	m.Add(keys[:1000], fresh)
	m.Missing(keys, missing)
	m.Has(keys, fresh)
	for i, got := range missing {
		if (got == 0) == fresh[i] {
			t.Fatalf("key %d: misses %08b, but fresh is %v", i, got, fresh[i])
		}
	}
	// Place returns the positions at which Stripe has the bits.
	stripes := make([][]byte, m.Header().Stripes())
	for i := range stripes {
		stripes[i] = m.Stripe(i, make([]byte, StripeBytes))
	}
	for i, key := range keys {
		stripe, bits := m.Header().Place(key)
		for w, at := range bits {
			set := stripes[stripe][at/8]>>(7-at%8)&1 == 1
			if want := missing[i]>>w&1 == 0; set != want {
				t.Fatalf("key %d, word %d: bit %d of stripe %d is %v, want %v", i, w, at, stripe, set, want)
			}
		}
	}
}
