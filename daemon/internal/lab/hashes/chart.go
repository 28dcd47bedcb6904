package hashes

import (
	"fmt"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
)

// OfIdeal returns the factor as it is shown; 1 if its interval contains the ideal.
func (r Rate) OfIdeal() string {
	if r.Low <= r.Ideal && r.Ideal <= r.High {
		return "1.0"
	}
	if r.Factor < 0.1 {
		return fmt.Sprintf("%.2f", r.Factor)
	}
	return fmt.Sprintf("%.1f", r.Factor)
}

// Chart shows speed against quality. Functions that take fewer items for seen than the ideal,
// like those that put consecutive numbers side by side, are shown where they are, down to a tenth.
func Chart(results []Result) plot.Chart {
	c := plot.Chart{
		Title: "Hash functions: speed and quality inside a Bloom filter",
		Notes: "best: lower left. 1 is what a perfect function gives; bars are intervals of 95 %, and 0.1 is that or less",
		X:     plot.Axis{Label: "nanoseconds for 32 letters", Log: true},
		Y:     plot.Axis{Label: "false positives, times the ideal", Log: true},
	}
	for i, input := range results[0].Rates {
		s := plot.Series{Name: input.Input}
		if i != 1 { // rings, around the dots of the second
			s.Ring = 6.5 + float64(i)
		}
		for _, r := range results {
			rate := r.Rates[i]
			const least = 0.1
			s.Points = append(s.Points, plot.Point{
				X: r.Nanos, Y: max(rate.Factor, least), Low: max(rate.Low/rate.Ideal, least), High: max(rate.High/rate.Ideal, least), Label: r.Name,
			})
		}
		c.Series = append(c.Series, s)
	}
	return c
}
