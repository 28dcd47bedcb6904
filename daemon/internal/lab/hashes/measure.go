package hashes

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/lab"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/rates"
)

// The filter that functions are tried in: at least ten bits an item, rounded up to a power of
// two, as scrapy-redis-bloomfilter masks its positions.
const (
	K           = 7
	bitsPerItem = 10
)

// MinItems is how many different items an input must have: with fewer the rate says nothing.
const MinItems = 2000

// Input is what functions are tried with: half of its items are put in, the others queried.
type Input struct {
	Name string
	in   [][]byte
	out  [][]byte
}

// Letters returns n random strings of 32 letters to put in, and as many to query.
func Letters(n int) Input {
	const alphabet = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	random := rand.New(rand.NewPCG(32, uint64(n)))
	return made("32 letters", n, func(int) []byte {
		item := make([]byte, 32)
		for i := range item {
			item[i] = alphabet[random.IntN(len(alphabet))]
		}
		return item
	})
}

// Digits returns URLs that differ in digits only: the first n are put in, the next n queried.
func Digits(n int) Input {
	return made("digits", n, func(i int) []byte { return fmt.Appendf(nil, "https://www.example.com/news/article-%08d.html", i) })
}

func made(name string, n int, item func(i int) []byte) Input {
	in := Input{Name: name}
	for i := range 2 * n {
		if i < n {
			in.in = append(in.in, item(i))
		} else {
			in.out = append(in.out, item(i))
		}
	}
	return in
}

// Lines makes an input of the distinct lines of a file: every second one is put in.
func Lines(name string, lines [][]byte) (Input, error) {
	in := Input{Name: name}
	seen := map[string]bool{}
	for _, line := range lines {
		if len(line) == 0 || seen[string(line)] {
			continue
		}
		seen[string(line)] = true
		if len(seen)%2 == 1 {
			in.in = append(in.in, line)
		} else {
			in.out = append(in.out, line)
		}
	}
	if len(seen) < MinItems {
		return in, fmt.Errorf("%s has %d different lines: want %d or more, so that the rate says something", name, len(seen), MinItems)
	}
	return in, nil
}

// Rate is what a function did to a Bloom filter that holds an input.
type Rate struct {
	Input    string  `json:"input"`
	Items    int     `json:"items"`
	Asked    int     `json:"asked"`
	Seen     int     `json:"taken_for_seen"`
	Measured float64 `json:"false_positive_rate"`
	Low      float64 `json:"low"` // of its interval of 95 %
	High     float64 `json:"high"`
	Ideal    float64 `json:"ideal"`
	Factor   float64 `json:"factor"` // of the ideal
}

// Result is what was measured of one function.
type Result struct {
	Name   string  `json:"name"`
	Bits   int     `json:"bits"`
	Nanos  float64 `json:"ns"`     // a string of 32 letters
	Factor float64 `json:"factor"` // to the fastest
	Rates  []Rate  `json:"rates"`
}

// Measure measures functions, and calls each to report progress. The results are sorted by time.
func Measure(ctx context.Context, functions []Function, inputs []Input, each func(done, of int, name string)) ([]Result, error) {
	speed := Letters(4_000).in
	results := make([]Result, 0, len(functions))
	for i, f := range functions {
		each(i, len(functions), f.Name)
		r := Result{Name: f.Name, Bits: f.Bits, Nanos: timed(f, speed)}
		for _, in := range inputs {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			r.Rates = append(r.Rates, tried(f, in))
		}
		results = append(results, r)
	}
	each(len(functions), len(functions), "")
	slices.SortFunc(results, func(a, b Result) int { return cmp.Compare(a.Nanos, b.Nanos) })
	for i := range results {
		results[i].Factor = results[i].Nanos / results[0].Nanos
	}
	return results, nil
}

// timed returns the time of one hash in nanoseconds: that of the best of 21 runs, which the rest
// of the machine disturbed least.
func timed(f Function, items [][]byte) float64 {
	best := math.Inf(1)
	var sum uint64
	for range 21 {
		began := time.Now()
		for _, item := range items {
			sum += f.Sum(item)
		}
		best = min(best, float64(time.Since(began).Nanoseconds())/float64(len(items)))
	}
	runtime.KeepAlive(sum) // so that no call is optimized away
	return best
}

// tried fills a filter, and queries it.
func tried(f Function, in Input) Rate {
	width := bits.Len(uint(bitsPerItem*len(in.in) - 1))
	filter := make([]uint64, max(1, 1<<width/64))
	var at [K]uint64
	for _, item := range in.in {
		f.positions(item, width, at[:])
		for _, p := range at {
			filter[p/64] |= 1 << (p % 64)
		}
	}
	r := Rate{Input: in.Name, Items: len(in.in), Asked: len(in.out), Ideal: rates.Classic(float64(uint64(1)<<width)/float64(len(in.in)), K)}
	for _, item := range in.out {
		f.positions(item, width, at[:])
		if !slices.ContainsFunc(at[:], func(p uint64) bool { return filter[p/64]>>(p%64)&1 == 0 }) {
			r.Seen++
		}
	}
	r.Measured = float64(r.Seen) / float64(r.Asked)
	r.Low, r.High = lab.Interval(r.Seen, r.Asked)
	r.Factor = r.Measured / r.Ideal
	return r
}
