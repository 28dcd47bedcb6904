package timing

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// The system allows a process some 65,000 mappings: many filters must not come near that limit,
// because a table that gets no memory ends the daemon.
func TestNoRaceFewMappings(t *testing.T) {
	const tables = 40
	before := mappings(t)
	rng := rand.New(rand.NewPCG(1, 2))
	var all []*Table
	defer func() {
		for _, table := range all {
			_ = table.Close()
		}
	}()
	for i := range 2 * tables {
		table := New(SystemClock())
		all = append(all, table)
		for _, n := range []int{3000, 10_000, 20_000} { // created, and then grown
			keys := make([]bloom.Hash, n)
			for i := range keys {
				keys[i] = bloom.Hash{Hi: rng.Uint64(), Lo: rng.Uint64()}
			}
			if _, err := table.Add(keys, time.Hour, make([]bool, n)); err != nil {
				t.Fatal(err)
			}
		}
		if i%2 == 1 { // leaves gaps
			if err := all[0].Close(); err != nil {
				t.Fatal(err)
			}
			all = append(all[:0], all[1:]...)
		}
	}
	got := mappings(t) - before
	t.Logf("%d tables: %d mappings", tables, got)
	if got > tables*8 {
		t.Errorf("%d mappings for %d tables", got, tables)
	}
}

func mappings(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(text), "\n")
}
