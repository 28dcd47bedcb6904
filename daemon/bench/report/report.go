// Package report tells what benchmarks measured: tables as people read them on a terminal and in
// docs, charts, and the samples of each run in the form that benchstat reads. It measures nothing
// but the machine.
package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Table is rows of cells, the first of them the heading.
type Table [][]string

// Row adds one.
func (t *Table) Row(cells ...string) { *t = append(*t, cells) }

// write gives the table as Markdown; padded, its columns are straight on a terminal.
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

// Whole is a number of 0 or more without a fraction, with commas between thousands.
func Whole(n float64) string {
	text := strconv.FormatFloat(n, 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

// Median of values, of which there must be one at least.
func Median[T int | float64 | time.Duration](all []T) T {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// Quantile of sorted values.
func Quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

// Million is a rate in millions.
func Million(perSecond float64) string { return fmt.Sprintf("%.2f M", perSecond/1e6) }

// Milliseconds is a time to a hundredth of one.
func Milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000)
}
