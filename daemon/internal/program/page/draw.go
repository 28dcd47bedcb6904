package page

import (
	"html/template"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// functions are those of the templates in one language.
func (s *Site) functions(language int) template.FuncMap {
	t := func(key string, args ...any) string { return s.text(language, key, args...) }
	return template.FuncMap{
		"t":       t,
		"texts":   func(key string, args []any) string { return t(key, args...) },
		"asset":   s.assetPath,
		"path":    Escaped,
		"count":   func(n uint64) string { return human.Count(int64(min(n, math.MaxInt64))) },
		"size":    func(n uint64) string { return human.Bytes(int64(min(n, math.MaxInt64))) },
		"rate":    rate,
		"percent": Percent,
		"share":   func(part, all int) float64 { return float64(part) / float64(max(1, all)) },
		"minus":   func(a, b int) int { return a - b },
		"micros":  func(n int64) time.Duration { return time.Duration(n) * time.Microsecond },
		"plus1":   func(n int) int { return n + 1 },
		"bar":     func(share float64, level string) Bar { return Bar{share, level} },
		"clock":   func(at time.Time) string { return at.UTC().Format("2006-01-02 15:04:05 UTC") },
		"instant": func(at time.Time) string { return at.UTC().Format(time.RFC3339) },
		"now":     func() time.Time { return s.Now() },
		"took":    func(d time.Duration) string { return took(d, t) },
		"ago":     func(at time.Time) string { return t("ago", took(max(time.Second, s.Now().Sub(at)), t)) },
	}
}

// rate writes how many there are a second.
func rate(n float64) string {
	if n > 0 && n < 10 {
		return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0")
	}
	return human.Count(int64(math.Round(n)))
}

// Percent writes a share of one with two digits that tell something.
func Percent(share float64) string {
	p := share * 100
	digits := 0
	switch {
	case p < 1e-7:
		return "0 %"
	case p < 9.95:
		digits = 1 - int(math.Floor(math.Log10(p)))
	}
	text := strconv.FormatFloat(p, 'f', digits, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " %"
}

// took writes a time in its largest unit.
func took(d time.Duration, t func(string, ...any) string) string {
	switch {
	case d < 10*time.Millisecond:
		return t("milliseconds", strconv.FormatFloat(max(0, d.Seconds()*1000), 'g', 2, 64))
	case d < time.Second:
		return t("milliseconds", strconv.Itoa(int(d.Milliseconds())))
	case d < 2*time.Minute:
		return t("seconds", int(d.Seconds()))
	case d < 2*time.Hour:
		return t("minutes", int(d.Minutes()))
	case d < 48*time.Hour:
		return t("hours", int(d.Hours()))
	}
	return t("days", int(d.Hours()/24))
}

// Bar is a share of one, in a colour: ok, warn or bad.
type Bar struct {
	Share float64
	Level string
}

// Width is that of the filled part of 100.
func (b Bar) Width() string { return strconv.FormatFloat(100*min(1, max(0, b.Share)), 'f', 1, 64) }

// Chart has lines over the same time, the last value at the right end.
type Chart struct {
	Width, Height int
	Max           float64 // the largest value, which is at the top
	Lines         []string
}

// NewChart makes a chart of places values; the lines have at most as many.
func NewChart(width, height, places int, lines ...[]float64) Chart {
	c := Chart{Width: width, Height: height}
	for _, line := range lines {
		for _, value := range line {
			c.Max = max(c.Max, value)
		}
	}
	for _, line := range lines {
		var b strings.Builder
		for i, value := range line {
			y := float64(height) - 1
			if c.Max > 0 {
				y -= value / c.Max * float64(height-2)
			}
			x := float64(width) * float64(places-len(line)+i) / float64(max(1, places-1))
			b.WriteString(strconv.FormatFloat(x, 'f', 1, 64) + "," + strconv.FormatFloat(y, 'f', 1, 64) + " ")
		}
		c.Lines = append(c.Lines, strings.TrimSpace(b.String()))
	}
	return c
}

// Cached is a value that many browsers share while it is fresh.
type Cached[T any] struct {
	For time.Duration

	mu    sync.Mutex
	made  time.Time
	value T
	err   error
}

// Drop makes the next Get make the value.
func (c *Cached[T]) Drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.made = time.Time{}
}

// Get returns the value, and makes it if it is older than For. Callers who come meanwhile wait for it.
func (c *Cached[T]) Get(now func() time.Time, fresh func() (T, error)) (T, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.made.IsZero() || now().Sub(c.made) >= c.For {
		c.value, c.err = fresh()
		c.made = now()
	}
	return c.value, c.err
}
