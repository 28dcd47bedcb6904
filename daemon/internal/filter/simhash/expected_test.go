package simhash

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// The expected memory is what a real index uses.
func TestNoRaceExpectedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ distance, n, idBytes int }{
		{3, 1, 30}, {3, 2_000, 30}, {3, 120_000, 30}, {0, 60_000, 8}, {7, 150_000, 100}, {3, 1_000_000, 30},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(c.n), 2))
			x := indexFor(t, c.distance, divideAt)
			id := make([]byte, c.idBytes)
			for i := range c.n {
				copy(id, fmt.Sprintf("%8d", i))
				put(t, x, Document{ID: id, Fingerprint: random.Uint64()})
			}
			got, want := float64(x.Bytes()), float64(Expected(c.distance, uint64(c.n), c.idBytes))
			if math.Abs(got-want) > 0.05*want {
				t.Errorf("got %.0f bytes, want %.0f by 5 %% at most", got, want)
			}
		})
	}
	if got := Expected(3, 0, 30); got != 0 {
		t.Errorf("no document: got %d bytes", got)
	}
}
