package human

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity is a flag's value: a whole number of items. It may be written as 150e6, or with k, M or
// G for thousands, millions, thousand millions.
type Quantity struct {
	N    uint64
	Most uint64 // the largest that Set takes, 2^53 at most; 0: 2^40
	Want string // what messages of Set ask for; empty: a whole number of items up to Most
}

const mostQuantity = 1 << 40

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
	most := cmp.Or(q.Most, mostQuantity)
	value, err := strconv.ParseFloat(number, 64)
	total := value * factor
	if err != nil || !(total >= 1 && total <= float64(most)) || total != math.Trunc(total) {
		return errors.New("want " + cmp.Or(q.Want, fmt.Sprintf("a whole number of items from 1 to %d, such as 150M or 150e6", most)))
	}
	q.N = uint64(total)
	return nil
}
