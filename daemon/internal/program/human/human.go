// Package human writes numbers, sizes, times and tables for people.
package human

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// Table aligns the columns in left to the left and the others to the right.
func Table(w io.Writer, rows [][]string, left map[int]bool) error {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = terminal.Text(cell) // also for a pager, which passes on what a terminal obeys
		}
	}
	width := map[int]int{}
	for _, row := range rows {
		for i, cell := range row {
			width[i] = max(width[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
			if i > 0 {
				line.WriteString("  ")
			}
			if left[i] {
				line.WriteString(cell + pad)
			} else {
				line.WriteString(pad + cell)
			}
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Count writes n with a comma every three digits.
func Count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Percent writes a share of one.
func Percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

// Bytes writes n in the unit that leaves one to three digits before the point.
func Bytes(n int64) string {
	value, unit := float64(n), "B"
	for _, larger := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if value < 1024 {
			break
		}
		value, unit = value/1024, larger
	}
	if unit == "B" {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, unit)
}

// Duration writes a time without the units that are zero: 1h and not 1h0m0s.
func Duration(d time.Duration) string {
	if day := 24 * time.Hour; d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := d.String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// Quantity is a flag's value: a whole number of items. It may be written as 150e6, or with k, M or
// G for thousands, millions, thousand millions.
type Quantity struct {
	N    uint64
	Max  uint64 // the largest that Set takes, 2^53 at most; 0: 2^40
	Want string // what messages of Set ask for; empty: a whole number of items up to Max
}

const maxQuantity = 1 << 40

// String, Type and Set implement pflag.Value.
func (q *Quantity) String() string {
	if q.N == 0 {
		return ""
	}
	return strconv.FormatUint(q.N, 10)
}

// Type is the word for the value in help.
func (q *Quantity) Type() string { return "items" }

// Set reads the text of a flag.
func (q *Quantity) Set(text string) error {
	number, factor := text, 1.0
	for unit, f := range map[string]float64{"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			number, factor = rest, f
		}
	}
	limit := cmp.Or(q.Max, maxQuantity)
	value, err := strconv.ParseFloat(number, 64)
	total := value * factor
	if whole := math.Round(total); math.Abs(total-whole) <= 1e-15*whole { // 2.01 * 1000 is 2009.9999999999998
		total = whole
	}
	if err != nil || !(total >= 1 && total <= float64(limit)) || total != math.Trunc(total) {
		return errors.New("want " + cmp.Or(q.Want, fmt.Sprintf("a whole number of items from 1 to %d, such as 150M or 150e6", limit)))
	}
	q.N = uint64(total)
	return nil
}
