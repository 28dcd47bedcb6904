package processtest

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
)

// URICapacity is the capacity of the filter uri in the tests that compare its estimate with
// what they added.
const URICapacity = 1_500_000

// WantEstimate fails unless a bit-map's estimate is this many items, within six standard
// errors of linear counting and the rounding to a whole number.
//
// With B blocks, an item of a new filter, which grows, sets one of 32 B bits in each of sixteen columns. Two items
// share a block with a probability of 1/B. They then have X of these bits in common, and the
// estimate is X/16 too low: E(X²) = 16 (1/32)(31/32) + (16/32)² = 0.734. Over the n²/2 pairs
// the variance of the estimate is 0.734/256 n²/(2B). (Bits common to three items are
// ignored: the tests are far below capacity.) With a random seed 2,000 items are
// estimated as 1,999 in one run of a hundred.
func WantEstimate(t testing.TB, got uint64, items, capacity int) {
	t.Helper()
	blocks := float64(bloom.BlocksFor(uint64(capacity), 1e-4/2, 16))
	n := float64(items)
	tolerance := 0.5 + 6*n*math.Sqrt(0.734/256/(2*blocks))
	if math.Abs(float64(got)-n) > tolerance {
		t.Errorf("estimate of %d items, want %d within %.1f", got, items, tolerance)
	}
}

// WantAbout is WantEstimate of the first "about 1,000 items" after the prefix.
func WantAbout(t testing.TB, out, prefix string, items int) {
	t.Helper()
	m := regexp.MustCompile(regexp.QuoteMeta(prefix) + `about ([0-9,]+) items`).FindStringSubmatch(out)
	if m == nil {
		t.Errorf("want %q and a number of items:\n%s", prefix, out)
		return
	}
	got, err := strconv.ParseUint(strings.ReplaceAll(m[1], ",", ""), 10, 64)
	if err != nil {
		t.Errorf("%s: %v", m[0], err)
		return
	}
	WantEstimate(t, got, items, URICapacity)
}
