package page

import (
	"testing"
	"time"
)

func TestNumbers(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 1e-10: "0 %", 0.0001: "0.01 %", 0.00012345: "0.012 %", 0.5: "50 %", 0.0995: "10 %", 0.01: "1 %", 1.5: "150 %", 0.000000123: "0.000012 %"} {
		if got := Percent(share); got != want {
			t.Errorf("%v: %q, want %q", share, got, want)
		}
	}
	for n, want := range map[float64]string{0: "0", 0.25: "0.2", 3: "3", 9.96: "10", 12.6: "13", 123456: "123,456"} {
		if got := rate(n); got != want {
			t.Errorf("%v: %q, want %q", n, got, want)
		}
	}
	s := &Site{Options: Options{Texts: texts}}
	english := func(key string, args ...any) string { return s.text(english, key, args...) }
	for d, want := range map[time.Duration]string{0: "0 ms", 1500 * time.Microsecond: "1.5 ms", 321 * time.Millisecond: "321 ms", 90 * time.Second: "90 s", 3 * time.Minute: "3 min", 5 * time.Hour: "5 h", 72 * time.Hour: "3 days"} {
		if got := took(d, english); got != want {
			t.Errorf("%v: %q, want %q", d, got, want)
		}
	}
}

func TestCharts(t *testing.T) {
	c := NewChart(100, 10, 5, []float64{0, 4, 2}, nil)
	if c.Max != 4 || c.Lines[0] != "50.0,9.0 75.0,1.0 100.0,5.0" || c.Lines[1] != "" {
		t.Errorf("%+v", c)
	}
	if w := (Bar{Share: 1.5}).Width(); w != "100.0" {
		t.Error(w)
	}
}

// Browsers that come at once share what one of them has made.
func TestCached(t *testing.T) {
	c, now, made := Cached[int]{For: time.Second}, time.Unix(1, 0), 0
	get := func() int {
		v, _ := c.Get(func() time.Time { return now }, func() (int, error) { made++; return made, nil })
		return v
	}
	for range 2 {
		if get() != 1 {
			t.Error("not shared")
		}
	}
	if now = now.Add(time.Second); get() != 2 {
		t.Error("not made again")
	}
}
