// Package report presents what benchmarks measured: tables for people, on a terminal and in the docs,
// charts, and the samples of each run in the format that benchstat reads. It measures nothing but the
// machine.
package report

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// Table is a list of rows of cells. The first row is the heading.
type Table [][]string

// Row adds a row.
func (t *Table) Row(cells ...string) { *t = append(*t, cells) }

// write writes the table as Markdown. If padded, its columns are aligned on a terminal.
func (t Table) write(w io.Writer, padded bool) {
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			if padded {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for n, row := range t {
		for i, cell := range row {
			fmt.Fprintf(w, "| %s%s ", cell, strings.Repeat(" ", max(0, width[i]-utf8.RuneCountInString(cell))))
		}
		fmt.Fprintln(w, "|")
		if n > 0 {
			continue
		}
		for _, wide := range width {
			fmt.Fprintf(w, "|%s", strings.Repeat("-", max(3, wide+2)))
		}
		fmt.Fprintln(w, "|")
	}
}

// Whole formats a number without a fraction, with commas between thousands.
func Whole(n float64) string { return human.Count(int64(math.Round(n))) }

// Median returns the median of all, which must have at least one value.
func Median[T int | float64 | time.Duration](all []T) T {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// Quantile returns the quantile q of sorted values.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Million formats a rate in millions.
func Million(perSecond float64) string { return fmt.Sprintf("%.2f M", perSecond/1e6) }

// Milliseconds formats a time in milliseconds, to a hundredth.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
