package timing

import (
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// A forgotten key is new at once, and new once; an expired key cannot be forgotten.
func TestForget(t *testing.T) {
	table, h := newTable(t)
	add(t, table, keys(0, 100), time.Minute)
	add(t, table, keys(100, 100), time.Second)
	h.pass(time.Second)
	var told []bloom.Hash
	table.OnChange(func(entries []bloom.Hash) { told = append(told, entries...) })
	if n := table.Forget(append(keys(50, 100), keys(50, 10)...)); n != 50 {
		t.Fatalf("%d are forgotten; want the 50 that have not expired, once", n)
	}
	if len(told) != 100 {
		t.Fatalf("%d elements told, want two for each", len(told))
	}
	for i := 1; i < len(told); i += 2 {
		if now := uint64(table.Now()); told[i] != (bloom.Hash{Hi: now, Lo: now}) {
			t.Fatalf("told %v, want the time of the call, %d", told[i], now)
		}
	}
	fresh := make([]bool, 200)
	table.Has(keys(0, 200), fresh)
	for i, is := range fresh {
		if is != (i >= 50) {
			t.Fatalf("key %d: new %v", i, is)
		}
	}
	for want := 150; want >= 0; want -= 150 {
		if got := add(t, table, keys(0, 200), time.Minute); got != want {
			t.Fatalf("%d are new, want %d", got, want)
		}
	}
	if st := table.Stats(); st.Items != 200 {
		t.Errorf("%+v, want 200 items", st)
	}
}
