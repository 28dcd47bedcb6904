package bloom

import "testing"

func TestMissingAndPlace(t *testing.T) {
	missingAndPlace(t, newMap(t, 3_000_000, 1e-4))
	pairs, err := makeMap(newGrowing(t, 2_000_000, 1e-4).Header().Layer(2))
	if err != nil {
		t.Fatal(err)
	}
	defer pairs.Close()
	missingAndPlace(t, pairs)
}

func missingAndPlace(t *testing.T, m *Map) {
	t.Helper()
	keys := urlKeys(42, 0, 2000)
	missing := make([]uint16, len(keys))
	m.Missing(keys, missing)
	for i, got := range missing {
		if got != m.Header().AllMissing() {
			t.Fatalf("empty map: key %d misses bits %016b", i, got)
		}
	}
	fresh := make([]bool, len(keys))
	m.Add(keys[:1000], fresh)
	m.Missing(keys, missing)
	m.Has(keys, fresh)
	for i, got := range missing {
		if (got == 0) == fresh[i] {
			t.Fatalf("key %d: misses %016b, but fresh is %v", i, got, fresh[i])
		}
	}
	if ones, want := m.Ones(), m.Header().OnesOf(1000); ones < want-50 || ones > want+50 {
		t.Errorf("1000 keys set %d bits, want about %d", ones, want)
	}
	// Place returns the positions at which Stripe has the bits.
	stripes := make([][]byte, m.Header().Stripes())
	for i := range stripes {
		stripes[i] = m.Stripe(i, make([]byte, StripeBytes))
	}
	for i, key := range keys {
		stripe, bits := m.Header().Place(key)
		for w, at := range bits[:m.Header().K()] {
			set := stripes[stripe][at/8]>>(7-at%8)&1 == 1
			if want := missing[i]>>w&1 == 0; set != want {
				t.Fatalf("key %d, word %d: bit %d of stripe %d is %v, want %v", i, w, at, stripe, set, want)
			}
		}
	}
}
