package table

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// Real tables take the expected memory.
func TestNoRaceExpectedMemory(t *testing.T) {
	t.Parallel()
	for name, newTable := range shapes {
		for _, n := range []int{1, 300, 10_000, 60_000, 250_000} {
			t.Run(fmt.Sprintf("%d, %s", n, name), func(t *testing.T) {
				random := rand.New(rand.NewPCG(uint64(n), 1))
				table := closing(t, newTable())
				keys, fresh := make([]bloom.Hash, 0, 1000), make([]bool, 1000)
				for left := n; left > 0; {
					keys = keys[:0]
					for range min(left, cap(keys)) {
						keys = append(keys, bloom.Hash{Hi: random.Uint64(), Lo: random.Uint64()})
					}
					left -= len(keys)
					if _, err := table.Add(keys, Still, Kept, fresh[:len(keys)]); err != nil {
						t.Fatal(err)
					}
				}
				got, want := float64(table.Memory()), float64(table.Expected(uint64(n)))
				// How many parts have grown by a further page is random: for each, the standard deviation
				// is at most half a page. The bound is five standard deviations of their sum.
				tolerance := 0.01 + 5*pageBytes/2*math.Sqrt(parts)/want
				if n == 1 {
					tolerance = 0.01
				}
				if math.Abs(got-want) > tolerance*want {
					t.Errorf("got %.0f bytes, want %.0f by %.1f %% at most", got, want, 100*tolerance)
				}
			})
		}
	}
	if got := New().Expected(0); got != 0 {
		t.Errorf("no key: got %d bytes", got)
	}
}
