package timing

import (
	"slices"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
)

// A million keys: what they take, and that it is given back.
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
	sweep := func() Stats {
		for range parts {
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
	if got := sweep(); got != (Stats{}) {
		t.Errorf("all expired: %+v", got)
	}
}

// Growth leaves out what has expired, so that a table through which many keys pass does
// not outgrow those that live.
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

// Keys that share a home, and the last one, find room as well: a table that was read from
// disk may have any.
func TestKeysThatCrowd(t *testing.T) {
	table, _ := newTable(t)
	for i := range 1500 {
		k := []bloom.Hash{{Hi: 1<<64 - 1, Lo: uint64(i) * 0x9e3779b97f4a7c15}, {Hi: 0, Lo: uint64(1500 - i)}}
		if add(t, table, k, time.Minute) != 2 {
			t.Fatal("not new")
		}
		if add(t, table, k, time.Minute) != 0 {
			t.Fatal("not seen")
		}
	}
	if got := len(table.Part(255, nil)) + len(table.Part(0, nil)); got != 3000 {
		t.Errorf("%d keys, want 3000", got)
	}
}

// What Part gave, put into another table, is there in full, with its deadlines, and takes
// no more room.
func TestPartsIntoAnotherTable(t *testing.T) {
	const n = 300_000
	a, _ := newTable(t)
	b, _ := newTable(t)
	add(t, a, keys(0, n), time.Minute)
	if err := b.Reserve(n); err != nil {
		t.Fatal(err)
	}
	for i := range Parts {
		if err := b.Put(a.Part(i, nil)...); err != nil {
			t.Fatal(err)
		}
	}
	for i := range Parts {
		if !slices.Equal(a.Part(i, nil), b.Part(i, nil)) {
			t.Fatalf("part %d differs", i)
		}
		p := &b.parts[i]
		for at := range p.table {
			if hi, _, d := p.table[at].read(); d != 0 && at-p.home(hi) > 100 {
				t.Fatalf("part %d: a key stands %d slots behind its home", i, at-p.home(hi))
			}
		}
	}
	if add(t, b, keys(0, n), time.Minute) != 0 || b.Stats().Bytes > a.Stats().Bytes*3/2 {
		t.Errorf("%+v, copied from %+v", b.Stats(), a.Stats())
	}
}
