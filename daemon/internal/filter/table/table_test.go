package table

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

func closing(t testing.TB, table *Table) *Table {
	t.Helper()
	t.Cleanup(func() {
		if err := table.Close(); err != nil {
			t.Error(err)
		}
		if got := table.Memory(); got != 0 {
			t.Errorf("%d bytes are left", got)
		}
	})
	return table
}

// shapes are the tables that there are; short ones get keys without Lo from key.
var shapes = map[string]func() *Table{
	"with deadlines": func() *Table { return NewTimed(Still) }, "without": New, "short": NewShort,
}

// as returns a key as the table has it.
func (t *Table) as(key bloom.Hash) bloom.Hash {
	key.Lo &= t.shape.lo
	return key
}

func key(n int) bloom.Hash { return bloom.Sum(7, fmt.Appendf(nil, "item %d", n)) }

func keys(from, n int) []bloom.Hash {
	all := make([]bloom.Hash, n)
	for i := range all {
		all[i] = key(from + i)
	}
	return all
}

// add adds keys without expiry and returns how many were fresh.
func add(t testing.TB, table *Table, keys []bloom.Hash) int {
	t.Helper()
	fresh := make([]bool, len(keys))
	n, err := table.Add(keys, Still, Kept, fresh)
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

func remove(table *Table, keys []bloom.Hash) int {
	return table.Remove(keys, Still)
}

// sound fails if a part is not in order, a key is before its home or after an empty slot, or the
// count is wrong.
func sound(t *testing.T, table *Table) {
	t.Helper()
	for i := range table.parts {
		p := &table.parts[i]
		used := 0
		var hi, lo uint64
		for at := range p.slots {
			h, l := p.key(at)
			if h|l == 0 {
				continue
			}
			used++
			if used > 1 && (h < hi || h == hi && l <= lo) {
				t.Fatalf("part %d: slot %d is not in order", i, at)
			}
			hi, lo = h, l
			if at < p.home(h) || at == p.slots-1 {
				t.Fatalf("part %d: slot %d of %d is not for a key whose home is %d", i, at, p.slots, p.home(h))
			}
			for before := p.home(h); before < at; before++ {
				if h, l := p.key(before); h|l == 0 {
					t.Fatalf("part %d: slot %d is empty, between a key and its home", i, before)
				}
			}
		}
		if used != p.used {
			t.Fatalf("part %d: %d keys, counted %d", i, used, p.used)
		}
	}
}

// All tables are compared with a map, through growth, removal, and shrinking.
func TestNoRaceAgainstAMap(t *testing.T) {
	for name, newTable := range shapes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			table := closing(t, newTable())
			const now, until = Still, Kept
			rnd := rand.New(rand.NewPCG(1, 2))
			whole := map[bloom.Hash]bloom.Hash{} // by what a table has of them
			for n := range 60_000 {
				whole[table.as(key(n))] = key(n)
			}
			seen := map[bloom.Hash]bool{}
			told := map[bloom.Hash]bool{} // only from OnChange
			table.OnChange(func(entries []bloom.Hash) {
				if name == "short" {
					entries = unpack(entries)
				}
				for ; len(entries) > 1; entries = entries[2:] {
					told[entries[0]] = int64(entries[1].Hi) > int64(entries[1].Lo)
				}
			})
			for round := range 2000 {
				batch := make([]bloom.Hash, 1+rnd.IntN(400))
				for i := range batch {
					batch[i] = key(rnd.IntN(60_000))
				}
				if rnd.IntN(1000) < 300+round/1000*400 { // first it grows, then it shrinks
					want := 0
					for _, k := range batch {
						if seen[k] {
							want++
						}
						delete(seen, k)
					}
					if n := table.Remove(batch, now); n != want {
						t.Fatalf("round %d: %d removed, want %d", round, n, want)
					}
					continue
				}
				fresh := make([]bool, len(batch))
				table.Has(batch, now, fresh)
				for i, k := range batch {
					if fresh[i] == seen[k] {
						t.Fatalf("round %d: Has[%d] is %v", round, i, fresh[i])
					}
				}
				if _, err := table.Add(batch, now, until, fresh); err != nil {
					t.Fatal(err)
				}
				for i, k := range batch {
					if fresh[i] == seen[k] {
						t.Fatalf("round %d: Add[%d] is %v", round, i, fresh[i])
					}
					seen[k] = true
				}
			}
			sound(t, table)
			found := 0
			for i := range Parts {
				for _, e := range table.Part(i, now, nil) {
					if found++; !seen[whole[e.Key]] || e.Until != until {
						t.Fatalf("%+v: seen %v, want until %d", e, seen[e.Key], until)
					}
				}
			}
			for k, is := range told {
				if is != seen[whole[k]] {
					t.Fatalf("%v was told as seen %v last", k, is)
				}
			}
			if found != len(seen) || table.Stats().Items != uint64(len(seen)) {
				t.Errorf("%d entries, %+v, want %d", found, table.Stats(), len(seen))
			}
		})
	}
}

// Keys with the same home, the first or the last, are found, and can be removed in any order: a
// table read from disk may have any keys.
func TestNoRaceKeysThatCrowd(t *testing.T) {
	for name, newTable := range shapes {
		table := closing(t, newTable())
		var all []bloom.Hash
		for i := range 1500 {
			some := []bloom.Hash{{Hi: 1<<64 - 1, Lo: uint64(i) * 0x9e3779b97f4a7c15}, {Hi: 0, Lo: uint64(1500 - i)}, {Hi: 1 << 56, Lo: uint64(2 * i)}}
			if name == "short" {
				some = []bloom.Hash{{Hi: ^uint64(i) ^ uint64(i)&7<<9}, {Hi: uint64(1500 - i)}, {Hi: 1<<56 | uint64(2*i)}}
			}
			all = append(all, some...)
			for want := 3; want >= 0; want -= 3 {
				fresh := make([]bool, 3)
				if n, err := table.Add(all[3*i:], Still, Kept, fresh); n != want || err != nil {
					t.Fatalf("%s: %d are new, %v, want %d", name, n, err, want)
				}
			}
		}
		sound(t, table)
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for i := 0; i < len(all); i += 100 {
			some := all[i : i+100]
			for want := 100; want >= 0; want -= 100 {
				if n := table.Remove(some, Still); n != want {
					t.Fatalf("%s: %d are removed, want %d", name, n, want)
				}
			}
			sound(t, table)
		}
		if st := table.Stats(); st != (Stats{}) {
			t.Errorf("%s: %+v is left", name, st)
		}
	}
}

// All keys from Part, loaded into another table, are there and take no more room, however full the
// first one is.
func TestNoRacePartsIntoAnotherTable(t *testing.T) {
	for _, n := range []int{1, 300, 5_000, 250_000, 300_000, 330_000, 350_000, 600_000} {
		t.Run(strconv.Itoa(n), func(t *testing.T) { testLoad(t, n) })
	}
}

func testLoad(t *testing.T, n int) {
	for name, newTable := range shapes {
		a, b := closing(t, newTable()), closing(t, newTable())
		if _, err := a.Add(keys(0, n), Still, Kept, make([]bool, n)); err != nil {
			t.Fatal(err)
		}
		into := b.Load(Still)
		for i := range Parts {
			if err := into.Put(a.Part(i, Still, nil)...); err != nil {
				t.Fatal(err)
			}
		}
		if err := into.Flush(); err != nil {
			t.Fatal(err)
		}
		for i := range Parts {
			if !slices.Equal(a.Part(i, Still, nil), b.Part(i, Still, nil)) {
				t.Fatalf("%s: part %d differs", name, i)
			}
			p := &b.parts[i]
			for at := range p.slots {
				if hi, lo := p.key(at); hi|lo != 0 && at-p.home(hi) > 100 {
					t.Fatalf("%s: part %d: a key stands %d slots behind its home", name, i, at-p.home(hi))
				}
			}
		}
		if b.Stats().Bytes > a.Stats().Bytes {
			t.Errorf("%s: %+v, copied from %+v", name, b.Stats(), a.Stats())
		}
		b.OnChange(func([]bloom.Hash) {})
		if got, want := b.MemoryFor(0, 0), b.Memory(); got != want {
			t.Errorf("%s: MemoryFor nothing is %d, want %d", name, got, want)
		}
		promised := b.MemoryFor(n, 0)
		if _, err := b.Add(keys(n, n), Still, Kept, make([]bool, n)); err != nil {
			t.Fatal(err)
		}
		if got := b.Memory(); got > promised {
			t.Errorf("%s: as many again take %d bytes, MemoryFor said %d", name, got, promised)
		}
	}
}

// A key takes at most 20 bytes, a short one 9.5, at any moment of the table's growth from a million
// keys on, and memory of removed keys is freed.
func TestNoRaceBytesOfAKey(t *testing.T) {
	t.Run("without", func(t *testing.T) { testBytesOfAKey(t, New(), 20) })
	t.Run("short", func(t *testing.T) { testBytesOfAKey(t, NewShort(), 9.5) })
}

func testBytesOfAKey(t *testing.T, table *Table, limit float64) {
	const n = 2_000_000
	closing(t, table)
	rnd := rand.New(rand.NewPCG(5, 6))
	batch, fresh := make([]bloom.Hash, 1000), make([]bool, 1000)
	fill := func() {
		for i := range batch {
			batch[i] = bloom.Hash{Hi: rnd.Uint64(), Lo: rnd.Uint64()}
		}
	}
	worst, sum, looks := 0.0, 0.0, 0.0
	for size := 1000; size <= n; size += 1000 {
		fill()
		if _, err := table.Add(batch, Still, Kept, fresh); err != nil {
			t.Fatal(err)
		}
		if size < n/2 {
			continue
		}
		each := float64(table.Memory()) / float64(size)
		worst, sum, looks = max(worst, each), sum+each, looks+1
	}
	t.Logf("1 to 2 million keys: %.2f bytes a key on average, %.2f at most", sum/looks, worst)
	if worst > limit {
		t.Errorf("%.2f bytes a key at worst, want %.1f", worst, limit)
	}
	rnd = rand.New(rand.NewPCG(5, 6))
	for left := n; left > 0; left -= 1000 {
		fill()
		if got := remove(table, batch); got != 1000 {
			t.Fatalf("%d of 1000 are removed", got)
		}
		if got := table.Memory(); left > n/10 && float64(got) > 2.25*limit*float64(left) {
			t.Fatalf("%d bytes for %d keys that are left", got, left)
		}
	}
}

// When many callers add and remove the same keys, additions and removals match.
func TestExactlyOnce(t *testing.T) {
	const callers, n = 8, 4000
	table := closing(t, New())
	k := keys(0, n)
	var balance [n]atomic.Int32 // additions less removals
	index := map[bloom.Hash]int{}
	for i := range k {
		index[k[i]] = i
	}
	table.OnChange(func(entries []bloom.Hash) { // under the key's lock
		for ; len(entries) > 1; entries = entries[2:] {
			change := int32(1)
			if entries[1] == (bloom.Hash{}) {
				change = -1
			}
			if got := balance[index[entries[0]]].Add(change); got < 0 || got > 1 {
				t.Errorf("key %d was added %d times more than removed", index[entries[0]], got)
			}
		}
	})
	var added, removed atomic.Int64
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(8, uint64(caller)))
			for range 100 {
				at := rnd.IntN(n - 250)
				if caller%2 == 0 {
					removed.Add(int64(remove(table, k[at:at+250])))
				} else {
					added.Add(int64(add(t, table, k[at:at+250])))
				}
			}
		})
	}
	wg.Wait()
	if got := int64(table.Stats().Items); got != added.Load()-removed.Load() || removed.Load() == 0 {
		t.Errorf("%d items, %d added, %d removed", got, added.Load(), removed.Load())
	}
	sound(t, table)
}

func BenchmarkAdd(b *testing.B) {
	for _, n := range []int{2_000_000, 20_000_000} {
		for name, newTable := range shapes {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) { benchmarkAdd(b, newTable(), n) })
		}
	}
}

func benchmarkAdd(b *testing.B, table *Table, n int) {
	defer table.Close()
	rnd := rand.New(rand.NewPCG(1, 2))
	batch, fresh := make([]bloom.Hash, 1000), make([]bool, 1000)
	fill := func(some []bloom.Hash) {
		for i := range some {
			some[i] = bloom.Hash{Hi: rnd.Uint64(), Lo: rnd.Uint64()}
		}
	}
	add := func() {
		if _, err := table.Add(batch, Still, Kept, fresh); err != nil {
			b.Fatal(err)
		}
	}
	for range n / 1000 {
		fill(batch)
		add()
	}
	for half := batch[:500]; b.Loop(); { // half of a batch is from the previous batch
		copy(batch[500:], half)
		fill(half)
		add()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/item")
	b.ReportMetric(float64(table.Stats().Bytes)/float64(table.Stats().Items), "B/entry")
}
