package http

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const window = 8 * time.Second
	for name, test := range map[string]struct {
		rate  func(second int) int64 // bytes that come in it
		until int                    // the second in which it is too slow; 0: never
	}{
		"steady":                     {func(int) int64 { return minBytesPerSecond }, 0},
		"steady, but too slow":       {func(int) int64 { return minBytesPerSecond - 1 }, 8},
		"nothing":                    {func(int) int64 { return 0 }, 8},
		"much at first, then little": {func(s int) int64 { return []int64{1 << 30, 1}[min(s, 1)] }, 9},
		"much in each window":        {func(s int) int64 { return []int64{8 * minBytesPerSecond, 0, 0, 0, 0, 0, 0, 0}[s%8] }, 0},
		"late": {func(s int) int64 {
			if s < 100 {
				return minBytesPerSecond
			}
			return 10
		}, 101},
	} {
		start := time.Unix(1, 0)
		var p pace
		p.begin(window, start)
		bytes, slow := int64(0), 0
		for s := 0; s < 1000 && slow == 0; s++ {
			bytes += test.rate(s)
			if !p.keeps(start.Add(time.Duration(s+1)*time.Second), bytes) {
				slow = s + 1
			}
		}
		if slow != test.until {
			t.Errorf("%s: too slow after second %d, want %d", name, slow, test.until)
		}
	}
}

// Frequent reads do not push out the mark that is a window old.
func TestPaceOfManyReads(t *testing.T) {
	start := time.Unix(1, 0)
	var p pace
	p.begin(time.Second, start)
	bytes := int64(1 << 20)
	for i := range 100_000 {
		now := start.Add(time.Duration(i) * 100 * time.Microsecond)
		if ok := p.keeps(now, bytes); !ok {
			if now.Sub(start) > 2*time.Second {
				t.Errorf("too slow after %s, want it in the second second", now.Sub(start))
			}
			return
		}
	}
	t.Error("nothing came for ten seconds, and the pace was kept")
}
