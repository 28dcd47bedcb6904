package chores

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// total counts the tests of several reports.
type total struct {
	mu sync.Mutex // of add
	counts
}

// counts are the results of tests.
type counts struct {
	passed, failed, skipped int
	broken                  []string   // packages that failed
	times                   []testTime // of tests that are not subtests
}

// testTime is how long a test took, including its subtests.
type testTime struct {
	name    string // package and test
	seconds float64
}

// add adds a report. On a nil total it does nothing.
func (t *total) add(r *report) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passed += r.passed
	t.failed += r.failed
	t.skipped += r.skipped
	t.broken = append(t.broken, r.broken...)
	t.times = append(t.times, r.times...)
}

// String is the last line of a target.
func (c counts) String() string {
	s := fmt.Sprintf("%d passed, %d failed, %d skipped", c.passed, c.failed, c.skipped)
	if len(c.broken) > 0 {
		s += "; broken: " + strings.Join(slices.Sorted(slices.Values(c.broken)), " ")
	}
	return s
}

// slowest returns a table of the tests that took longest, of those of half a second and more.
func (t *total) slowest(limit int) string {
	slices.SortFunc(t.times, func(a, b testTime) int { return cmp.Compare(b.seconds, a.seconds) })
	var b strings.Builder
	for i, test := range t.times[:min(limit, len(t.times))] {
		if test.seconds < 0.5 {
			break
		}
		if i == 0 {
			b.WriteString("== the slowest tests\n")
		}
		fmt.Fprintf(&b, "%7.1fs\t%s\n", test.seconds, test.name)
	}
	return b.String()
}
