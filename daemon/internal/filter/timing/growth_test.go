package timing

import (
	"testing"
	"time"

	plain "github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// A million keys: the memory that they use, and that it is given back.
func TestNoRaceMemory(t *testing.T) {
	const n = 1_000_000
	table, h := newTable(t)
	for from := 0; from < n; from += 1000 {
		expire := time.Minute
		if from >= n/10 {
			expire = time.Second
		}
		if got := add(t, table, keys(from, 1000), expire); got != 1000 {
			t.Fatalf("%d of 1000 are new", got)
		}
	}
	full := table.Stats()
	t.Logf("%d live entries: %d bytes, %.1f an entry", full.Items, full.Bytes, float64(full.Bytes)/n)
	if full.Items != n || full.Bytes > 32*n {
		t.Errorf("%+v", full)
	}
	sweep := func() plain.Stats {
		for range plain.Parts {
			if err := table.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
		return table.Stats()
	}
	if got := sweep(); got != full {
		t.Errorf("a sweep with nothing expired: %+v, before %+v", got, full)
	}
	h.pass(time.Second)
	if got := sweep(); got.Items != n/10 || got.Bytes > full.Bytes/6 {
		t.Errorf("nine tenths expired: %+v, before %+v", got, full)
	}
	h.pass(time.Minute)
	if got := sweep(); got != (plain.Stats{}) {
		t.Errorf("all expired: %+v", got)
	}
}

// Growth leaves out expired keys, so that a table through which many keys pass does not
// outgrow its live keys.
func TestNoRaceGrowthFreesWhatHasExpired(t *testing.T) {
	table, h := newTable(t)
	largest := uint64(0)
	for from := 0; from < 2_000_000; from += 1000 {
		add(t, table, keys(from, 1000), 100*time.Millisecond) // 100,000 live at a time
		h.pass(time.Millisecond)
		largest = max(largest, table.Stats().Bytes)
	}
	if largest > 8<<20 {
		t.Errorf("%d bytes for 100,000 live keys", largest)
	}
}
