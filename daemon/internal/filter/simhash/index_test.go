package simhash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
)

// brute is what an index is to find, by comparing all.
type brute struct {
	prints []uint64 // in the order in which they came
	ids    map[uint64][]string
}

func (b *brute) put(d Document) {
	ids, there := b.ids[d.Fingerprint]
	if !there {
		b.prints = append(b.prints, d.Fingerprint)
	}
	if len(ids) < MaxNear && !slices.Contains(ids, string(d.ID)) {
		b.ids[d.Fingerprint] = append(ids, string(d.ID))
	}
}

func (b *brute) near(q Query) (near []Near, more bool) {
	for d := range q.Distance + 1 {
		from := len(near)
		for _, print := range b.prints {
			if Distance(q.Fingerprint, print) != d {
				continue
			}
			for _, id := range b.ids[print] {
				known := slices.ContainsFunc(near, func(n Near) bool { return n.ID == id })
				if id != string(q.ID) && !known && len(near) < q.Limit {
					near = append(near, Near{ID: id, Distance: d})
				} else if id != string(q.ID) && !known {
					more = true
				}
			}
		}
		slices.SortFunc(near[from:], func(a, b Near) int { return strings.Compare(a.ID, b.ID) })
	}
	return near, more
}

// indexFor is an empty index, for as long as the test runs.
func indexFor(t testing.TB, distance, divideAt int) *Index {
	x := newIndex(distance, divideAt)
	t.Cleanup(func() {
		if err := x.Free(); err != nil {
			t.Error(err)
		}
	})
	return x
}

func put(t testing.TB, x *Index, d Document) {
	if err := x.Put(d); err != nil {
		t.Error(err)
	}
}

func add(t testing.TB, x *Index, q Query, remembered func()) Answer {
	a, err := x.Add(q, nil, remembered)
	if err != nil {
		t.Error(err)
	}
	return a
}

// flip changes n bits at random.
func flip(rnd *rand.Rand, print uint64, n int) uint64 {
	for _, bit := range rnd.Perm(Bits)[:n] {
		print ^= 1 << bit
	}
	return print
}

// Every look-up finds what comparing all finds: on fingerprints that are spread, that lie
// near each other, and of which most are in one bucket, which is split several times.
func TestNoRaceIndexFindsAll(t *testing.T) {
	shapes := map[string]func(rnd *rand.Rand, i int) uint64{
		"spread":   func(rnd *rand.Rand, _ int) uint64 { return rnd.Uint64() },
		"clusters": func(rnd *rand.Rand, i int) uint64 { return flip(rnd, uint64(i%20)*0x9e3779b97f4a7c15, rnd.IntN(9)) },
		"one part": func(rnd *rand.Rand, _ int) uint64 { return 0xabcd<<48 | rnd.Uint64()>>16 },
		"few bits": func(rnd *rand.Rand, _ int) uint64 { return rnd.Uint64() & 0x0101_0003_0070_f00f },
		"one":      func(rnd *rand.Rand, _ int) uint64 { return 7 },
	}
	for name, shape := range shapes {
		for distance := range MaxDistance + 1 {
			t.Run(fmt.Sprintf("%s, distance %d", name, distance), func(t *testing.T) {
				t.Parallel()
				rnd := rand.New(rand.NewPCG(1, uint64(distance)))
				x, b := indexFor(t, distance, 32), &brute{ids: map[uint64][]string{}}
				for i := range 1500 {
					d := Document{ID: fmt.Appendf(nil, "doc-%d", rnd.IntN(1000)), Fingerprint: shape(rnd, i)}
					if i%8 == 0 {
						q := Query{Document{d.ID, flip(rnd, d.Fingerprint, rnd.IntN(distance+2))}, distance, 1 + rnd.IntN(MaxNear)}
						got := x.Near(q, nil)
						if all, rest := b.near(q); !slices.Equal(got.Near, all) || got.More != rest {
							t.Fatalf("after %d documents, near %016x, limit %d:\n got %+v\nwant %v, %v", i, q.Fingerprint, q.Limit, got, all, rest)
						}
					}
					put(t, x, d)
					b.put(d)
				}
				n := uint64(0)
				for _, ids := range b.ids {
					n += uint64(len(ids))
				}
				docs := x.Documents(0, x.Fingerprints(), nil)
				if x.Len() != n || uint64(len(docs)) != n || x.Fingerprints() != len(b.prints) {
					t.Errorf("%d documents, %d listed, %d fingerprints; want %d, %d", x.Len(), len(docs), x.Fingerprints(), n, len(b.prints))
				}
				for _, d := range docs {
					if !slices.Contains(b.ids[d.Fingerprint], string(d.ID)) {
						t.Fatalf("%s was never put with %016x", d.ID, d.Fingerprint)
					}
				}
			})
		}
	}
}

// A smaller distance than the index is made for finds what is that near.
func TestIndexSmallerDistance(t *testing.T) {
	x := indexFor(t, 3, divideAt)
	for i, print := range []uint64{0, 1, 3, 7, 15} {
		put(t, x, Document{ID: []byte{byte('a' + i)}, Fingerprint: print})
	}
	for distance, want := range []int{1, 2, 3, 4} {
		if got := x.Near(Query{Distance: distance, Limit: MaxNear}, nil).Near; len(got) != want {
			t.Errorf("distance %d: %v, want %d documents", distance, got, want)
		}
	}
}

// An id is not near itself, whatever else it came with; the same document twice has the same
// answer.
func TestOwnIDDoesNotCount(t *testing.T) {
	x := indexFor(t, 3, divideAt)
	add := func(id string, print uint64) (near []Near) {
		return add(t, x, Query{Document{[]byte(id), print}, 3, MaxNear}, func() {}).Near
	}
	for i := range 300 { // more than a look-up keeps
		if near := add("page", uint64(i)<<20); near != nil {
			t.Fatalf("after %d: %v", i, near)
		}
	}
	for range 2 {
		if near := add("other", 1<<20); len(near) != 1 || near[0] != (Near{"page", 0}) {
			t.Fatalf("%v, want the page once, at its least distance", near)
		}
	}
	if near := add("page", 5<<20); len(near) != 1 || near[0] != (Near{"other", 1}) {
		t.Fatalf("%v", near)
	}
}

// Near a page that came with many texts the others are told all the same: those that came first.
func TestManyTextsOfOneID(t *testing.T) {
	for _, texts := range []int{60, 1500} { // more than are told, and more than a search collects
		x := indexFor(t, 3, divideAt)
		q := Query{Document{[]byte("asked"), 0x0123_4567_89ab_cdef}, 3, 3}
		var pairs []uint64 // of bits that are changed
		for i := range Bits {
			for j := range i {
				pairs = append(pairs, 1<<i|1<<j)
			}
		}
		for _, pair := range pairs[:texts] {
			put(t, x, Document{[]byte("page"), q.Fingerprint ^ pair})
		}
		for i, id := range []string{"b", "a", "d", "c"} {
			put(t, x, Document{[]byte(id), q.Fingerprint ^ pairs[texts+i]})
		}
		want := []Near{{"a", 2}, {"b", 2}, {"page", 2}} // c and d came last
		if got := x.Near(q, nil); !slices.Equal(got.Near, want) || !got.More || got.New {
			t.Errorf("%d texts: %+v, want %v and more", texts, got, want)
		}
	}
}

// Documents that are asked about again are as new as at first, though more came near them than a
// search reads.
func TestNoRaceRepeatedInACrowd(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	x := indexFor(t, 3, 512)
	var all []Query
	for i := range 20_000 {
		all = append(all, Query{Document{fmt.Appendf(nil, "doc-%d", i), rnd.Uint64() & 0x00ff_f000_0000_0030}, 3, 10})
	}
	var first []bool
	for _, q := range all {
		first = append(first, add(t, x, q, func() {}).New)
	}
	if n := len(slices.DeleteFunc(slices.Clone(first), func(b bool) bool { return !b })); n < 10 || n > 1000 {
		t.Errorf("%d are new: the corpus is none", n)
	}
	for i, q := range all {
		// What is not kept has no place of its own.
		if got := x.Near(q, nil); got.New != first[i] {
			t.Fatalf("document %d: new %v, at first %v", i, got.New, first[i])
		}
	}
}

// A call whose answer was lost is repeated: which document was new stays, though the others are
// near it by then.
func TestRepeated(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 8))
	x := indexFor(t, 3, 32)
	var all []Query
	for i := range 2000 {
		print := flip(rnd, uint64(i%50)*0x9e3779b97f4a7c15, rnd.IntN(3))
		all = append(all, Query{Document{fmt.Appendf(nil, "doc-%d", i%900), print}, 3, 1 + rnd.IntN(3)})
	}
	first := make([]bool, len(all))
	for i, q := range all {
		first[i] = add(t, x, q, func() {}).New
	}
	for i, q := range all {
		known := slices.ContainsFunc(all[:i], func(o Query) bool { return o.Fingerprint == q.Fingerprint && string(o.ID) == string(q.ID) })
		if got := add(t, x, q, func() { t.Error("it is remembered twice") }); got.New != first[i] && !known {
			t.Errorf("document %d: new %v, at first %v", i, got.New, first[i])
		}
	}
}

// Of several callers with near documents exactly one finds none; the others find its
// document whole.
func TestIndexConcurrently(t *testing.T) {
	x := indexFor(t, 3, 64)
	const callers, each = 8, 500
	first := make([][]int, callers)
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(c), 0))
			for i := range each {
				print := uint64(i) * 0x9e3779b97f4a7c15
				id := fmt.Appendf(nil, "%d by %d", i, c)
				q := Query{Document{id, flip(rnd, print, 1)}, 3, 10}
				if add(t, x, q, func() {}).New {
					first[c] = append(first[c], i)
				}
				x.Near(q, nil)
			}
		})
	}
	wg.Wait()
	all := slices.Sorted(slices.Values(slices.Concat(first...)))
	if len(all) != each || len(slices.Compact(all)) != each {
		t.Errorf("%d times nothing near was found, of %d groups", len(all), each)
	}
}

// indexOf is an index of n documents with such fingerprints, and ids of 24 bytes.
func indexOf(t testing.TB, n int, print func() uint64) *Index {
	x := indexFor(t, 3, divideAt)
	for i := range n {
		put(t, x, Document{ID: fmt.Appendf(nil, "http://example.com/%05d", i%100_000), Fingerprint: print()})
	}
	return x
}

func BenchmarkNear(b *testing.B) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct {
		name  string
		n     int
		print func() uint64
	}{
		{"spread", 1_000_000, rnd.Uint64},
		{"spread", 10_000_000, rnd.Uint64},
		// Pages with much in common: their fingerprints differ in 20 of the 64 bits only.
		{"one bucket", 1_000_000, func() uint64 { return rnd.Uint64() >> 44 << 10 }},
	} {
		b.Run(fmt.Sprintf("%s/%d", c.name, c.n), func(b *testing.B) {
			x := indexOf(b, c.n, c.print)
			for b.Loop() {
				x.Near(Query{Document{nil, c.print()}, 3, 10}, nil)
			}
			b.ReportMetric(float64(x.Bytes())/float64(c.n), "B/entry")
		})
	}
}
