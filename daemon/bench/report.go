package main

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// table prints rows as Markdown, its columns padded for a terminal.
type table [][]string

func (t *table) row(cells ...string) { *t = append(*t, cells) }

func (t table) print(title string) {
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

func median[T int | float64 | time.Duration](all []T) T {
	sorted := slices.Clone(all)
	slices.Sort(sorted)
	return sorted[len(sorted)/2]
}

// quantile of sorted values.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}

func million(perSecond float64) string { return fmt.Sprintf("%.2f M", perSecond/1e6) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f ms", float64(d.Microseconds())/1000) }
