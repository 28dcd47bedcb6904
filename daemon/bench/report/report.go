// Package report prints what benchmarks measured: tables, and figures as people read them.
package report

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Table prints rows as Markdown, its columns padded for a terminal.
type Table [][]string

// Row adds one; the first is the heading.
func (t *Table) Row(cells ...string) { *t = append(*t, cells) }

// Print writes the table to the standard output.
func (t Table) Print(title string) {
	fmt.Printf("\n### %s\n\n", title)
	width := make([]int, len(t[0]))
	for _, row := range t {
		for i, cell := range row {
			width[i] = max(width[i], len([]rune(cell)))
		}
	}
	for n, row := range t {
		for i, cell := range row {
			fmt.Printf("| %s%s ", cell, strings.Repeat(" ", width[i]-len([]rune(cell))))
		}
		fmt.Println("|")
		if n == 0 {
			for _, w := range width {
				fmt.Printf("|%s", strings.Repeat("-", w+2))
			}
			fmt.Println("|")
		}
	}
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
