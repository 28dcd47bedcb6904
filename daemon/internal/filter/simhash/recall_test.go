package simhash

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// edit changes a text as pages change from one download to the next.
func edit(rnd *rand.Rand, words []string) []string {
	words = slices.Clone(words)
	at := rnd.IntN(len(words))
	switch rnd.IntN(5) {
	case 0: // a date or a counter
		words[at] = fmt.Sprint(rnd.IntN(1000))
	case 1:
		words = slices.Delete(words, at, at+1)
	case 2:
		words = slices.Insert(words, at, "advertisement")
	case 3: // two words change places
		other := rnd.IntN(len(words))
		words[at], words[other] = words[other], words[at]
	case 4: // characters that are not word characters
		words[at] += " ... "
	}
	return words
}

// In a shuffled corpus of 100,000 documents, half of which are edits of others, every look-up finds
// exactly what a comparison with all documents finds, and most edits are near.
func TestNoRaceRecall(t *testing.T) {
	const documents, every, distance = 100_000, 25, 3
	rnd := rand.New(rand.NewPCG(12, 3))
	vocabulary := make([]string, 5000)
	for i := range vocabulary {
		vocabulary[i] = strings.ToLower(fmt.Sprintf("%x", rnd.Uint64()>>(64-8*(1+i%5))))
	}
	prints := make([]uint64, 0, documents)
	known := 0 // edits that are within the distance of their originals
	for len(prints) < documents {
		words := make([]string, 80)
		for i := range words {
			words[i] = vocabulary[rnd.IntN(len(vocabulary))]
		}
		a := XXH3.Fingerprint(strings.Join(words, " "))
		b := XXH3.Fingerprint(strings.Join(edit(rnd, words), " "))
		if prints = append(prints, a, b); Distance(a, b) <= distance {
			known++
		}
	}
	rnd.Shuffle(documents, func(i, j int) { prints[i], prints[j] = prints[j], prints[i] })

	x := indexFor(t, distance, divideAt)
	pairs := 0
	for i, print := range prints {
		id := fmt.Appendf(nil, "doc-%06d", i)
		got := add(t, x, Query{Document{id, print}, distance, MaxNear}, func() {})
		if i%every != 0 {
			continue
		}
		var want []Near
		for j, other := range prints[:i] {
			if d := Distance(print, other); d <= distance {
				want = append(want, Near{fmt.Sprintf("doc-%06d", j), d})
			}
		}
		slices.SortStableFunc(want, func(a, b Near) int { return a.Distance - b.Distance })
		if !slices.Equal(got.Near, want) || got.More || got.New != (len(want) == 0) {
			t.Fatalf("document %d, %016x: found %v, want %v", i, print, got, want)
		}
		pairs += len(want)
	}
	t.Logf("%d of %d edits are within a distance of %d; all %d pairs that were looked for are found", known, documents/2, distance, pairs)
	if known < documents/4 || pairs < documents/4/every {
		t.Errorf("%d edits are near, and %d pairs were looked for: the corpus is none", known, pairs)
	}
}
