package timing

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	plain "github.com/cr-clawer/urifilter/daemon/internal/filter/table"
)

// hands is a Clock that moves only when it is told to.
type hands struct{ elapsed, wall atomic.Int64 } // nanoseconds, milliseconds

func (h *hands) clock() Clock {
	return Clock{
		Elapsed: func() time.Duration { return time.Duration(h.elapsed.Load()) },
		Wall:    func() time.Time { return time.UnixMilli(h.wall.Load()) },
	}
}

func (h *hands) pass(d time.Duration) {
	h.elapsed.Add(int64(d))
	h.wall.Add(d.Milliseconds())
}

func newTable(t testing.TB) (*Table, *hands) {
	t.Helper()
	h := &hands{}
	h.elapsed.Store(123456789)
	h.wall.Store(1_800_000_000_000)
	table := New(h.clock())
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	})
	return table, h
}

func key(n int) bloom.Hash { return bloom.Sum(7, fmt.Appendf(nil, "item %d", n)) }

func keys(from, n int) []bloom.Hash {
	all := make([]bloom.Hash, n)
	for i := range all {
		all[i] = key(from + i)
	}
	return all
}

// add adds keys and returns how many were fresh.
func add(t testing.TB, table *Table, keys []bloom.Hash, expire time.Duration) int {
	t.Helper()
	fresh := make([]bool, len(keys))
	n, err := table.Add(keys, expire, fresh)
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for _, is := range fresh {
		if is {
			marked++
		}
	}
	if marked != n {
		t.Fatalf("Add returned %d and marked %d", n, marked)
	}
	return n
}

func TestSeenUntilTheDeadlineAndNotAtIt(t *testing.T) {
	for _, expire := range []time.Duration{time.Millisecond, 50 * time.Millisecond, time.Hour, 315_360_000 * time.Second} {
		table, h := newTable(t)
		k := keys(0, 1)
		if add(t, table, k, expire) != 1 {
			t.Fatal("not new")
		}
		h.pass(expire - time.Millisecond)
		// A hit renews nothing, and a different expire does not change the deadline.
		for _, other := range []time.Duration{expire, time.Millisecond, 10 * expire} {
			if add(t, table, k, other) != 0 {
				t.Errorf("%v: new a millisecond before it expires", expire)
			}
		}
		h.pass(time.Millisecond)
		fresh := []bool{false}
		if table.Has(k, fresh); !fresh[0] {
			t.Errorf("%v: Has: seen when it expires", expire)
		}
		if add(t, table, k, 5*time.Millisecond) != 1 {
			t.Errorf("%v: a duplicate when it expires", expire)
		}
		h.pass(4 * time.Millisecond)
		if add(t, table, k, expire) != 0 {
			t.Errorf("%v: accepted again, and new before it expires again", expire)
		}
		h.pass(time.Millisecond)
		if add(t, table, k, expire) != 1 {
			t.Errorf("%v: accepted again, and a duplicate after it expired", expire)
		}
	}
}

func TestTheMachinesClockIsNotAsked(t *testing.T) {
	table, h := newTable(t)
	k := keys(0, 1)
	add(t, table, k, time.Minute)
	for _, step := range []time.Duration{-24 * time.Hour, 240 * time.Hour} {
		h.wall.Add(step.Milliseconds())
		if add(t, table, k, time.Minute) != 0 {
			t.Errorf("new after the machine's clock was set by %v", step)
		}
	}
	h.elapsed.Add(int64(time.Minute))
	if add(t, table, k, time.Minute) != 1 {
		t.Error("a duplicate after it expired")
	}
}

// The table is compared with a map, through growth, expiry and sweeps.
func TestNoRaceAgainstAMap(t *testing.T) {
	table, h := newTable(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	model := map[bloom.Hash]int64{}
	for round := range 3000 {
		n := 1 + rnd.IntN(400)
		expire := time.Duration(1+rnd.IntN(2000)) * time.Millisecond
		batch := make([]bloom.Hash, n)
		for i := range batch {
			batch[i] = key(rnd.IntN(60_000))
		}
		now := table.Now()
		fresh := make([]bool, n)
		if round%3 == 0 {
			table.Has(batch, fresh)
			for i, k := range batch {
				if want := model[k] <= now; fresh[i] != want {
					t.Fatalf("round %d: Has[%d] is %v, want %v", round, i, fresh[i], want)
				}
			}
		}
		if _, err := table.Add(batch, expire, fresh); err != nil {
			t.Fatal(err)
		}
		for i, k := range batch {
			want := model[k] <= now
			if fresh[i] != want {
				t.Fatalf("round %d: Add[%d] is %v, want %v", round, i, fresh[i], want)
			}
			if want {
				model[k] = now + expire.Milliseconds()
			}
		}
		h.pass(time.Duration(rnd.IntN(20)) * time.Millisecond)
		if round%5 == 0 {
			if err := table.Sweep(); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := table.Now()
	live := 0
	for _, until := range model {
		if until > now {
			live++
		}
	}
	found := 0
	for i := range plain.Parts {
		part := table.Part(i, now, nil)
		for n, e := range part {
			if n > 0 && !less(part[n-1].Key, e.Key) {
				t.Fatalf("part %d is not in order", i)
			}
			if model[e.Key] != e.Until {
				t.Fatalf("%v expires at %d, want %d", e.Key, e.Until, model[e.Key])
			}
		}
		found += len(part)
	}
	if found != live {
		t.Errorf("%d entries, want %d", found, live)
	}
	for range plain.Parts {
		if err := table.Sweep(); err != nil {
			t.Fatal(err)
		}
	}
	if got := table.Stats().Items; got != uint64(live) {
		t.Errorf("%d items counted, want %d", got, live)
	}
}

func less(a, b bloom.Hash) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

// When many callers add the same new keys, even at the moment when they expire, one caller
// gets each.
func TestExactlyOnce(t *testing.T) {
	table, h := newTable(t)
	const callers, n = 8, 5000
	k := keys(0, n)
	for round := range 20 {
		wins := make([]atomic.Int32, n)
		var wg sync.WaitGroup
		for caller := range callers {
			wg.Go(func() {
				mine := append(append([]bloom.Hash{}, k[caller*n/callers:]...), k[:caller*n/callers]...)
				for at := 0; at < n; at += 250 {
					fresh := make([]bool, 250)
					if _, err := table.Add(mine[at:at+250], time.Second, fresh); err != nil {
						t.Error(err)
					}
					for i, is := range fresh {
						if is {
							wins[(at+i+caller*n/callers)%n].Add(1)
						}
					}
				}
			})
		}
		wg.Go(func() {
			for range plain.Parts {
				if err := table.Sweep(); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Wait()
		for i := range wins {
			if got := wins[i].Load(); got != 1 {
				t.Fatalf("round %d: key %d was new for %d callers", round, i, got)
			}
		}
		h.pass(time.Second)
	}
}

func TestPutAndAdvance(t *testing.T) {
	table, h := newTable(t)
	now := table.Now()
	k := keys(0, 4)
	for i, until := range []int64{now + 10, now, now - 1e12, now + 1e15} {
		if err := table.Put(table.Now(), plain.Entry{Key: k[i], Until: until}); err != nil {
			t.Fatal(err)
		}
	}
	fresh := make([]bool, 4)
	if table.Has(k, fresh); fresh[0] || !fresh[1] || !fresh[2] || fresh[3] {
		t.Errorf("fresh: %v", fresh)
	}
	if err := table.Put(table.Now(), plain.Entry{Key: k[3], Until: now - 5}); err != nil { // the later of two entries in a journal
		t.Fatal(err)
	}
	table.Advance(now - 100)
	if table.Now() != now {
		t.Error("time ran backwards")
	}
	table.Advance(now + 9)
	if table.Has(k, fresh); fresh[0] || !fresh[3] {
		t.Errorf("fresh: %v", fresh)
	}
	h.pass(time.Millisecond)
	if table.Has(k, fresh); !fresh[0] {
		t.Error("Advance does not last")
	}
}

func TestReadingAfter(t *testing.T) {
	r := Reading{Table: 1000, Wall: 5000}
	for wall, want := range map[int64]int64{5000: 1000, 5750: 1750, 0: 1000, 4999: 1000} {
		if got := r.after(time.UnixMilli(wall)); got != want {
			t.Errorf("at %d: %d, want %d", wall, got, want)
		}
	}
}

func TestOnChangeSeesFreshKeysWithTheirTimes(t *testing.T) {
	table, h := newTable(t)
	var got []bloom.Hash
	calls := 0
	table.OnChange(func(entries []bloom.Hash) { calls, got = calls+1, append(got, entries...) })
	h.pass(time.Second)
	k := keys(0, 1000)
	add(t, table, append(k, k...), time.Minute)
	if calls > plain.Groups || len(got) != 2000 {
		t.Fatalf("%d calls with %d elements", calls, len(got))
	}
	want := map[bloom.Hash]bool{}
	for _, k := range k {
		want[k] = true
	}
	for i := 0; i < len(got); i += 2 {
		if !want[got[i]] || got[i+1].Hi != 1_800_000_061_000 || got[i+1].Lo != 1_800_000_001_000 {
			t.Fatalf("entry %v %v", got[i], got[i+1])
		}
		delete(want, got[i])
	}
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{1_000_000, 20_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			table := New(SystemClock())
			defer table.Close()
			rnd := rand.New(rand.NewPCG(1, 2))
			batch, fresh := make([]bloom.Hash, 1000), make([]bool, 1000)
			fill := func() {
				for i := range batch {
					batch[i] = bloom.Hash{Hi: rnd.Uint64(), Lo: rnd.Uint64()}
				}
			}
			for range n / 1000 {
				fill()
				if _, err := table.Add(batch, time.Hour, fresh); err != nil {
					b.Fatal(err)
				}
			}
			fill()
			for half := batch[:500]; b.Loop(); { // half of a batch is from the batch before
				copy(batch[500:], half)
				for i := range half {
					half[i] = bloom.Hash{Hi: rnd.Uint64(), Lo: rnd.Uint64()}
				}
				if _, err := table.Add(batch, time.Hour, fresh); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
			b.ReportMetric(float64(table.Stats().Bytes)/float64(table.Stats().Items), "B/entry")
		})
	}
}
