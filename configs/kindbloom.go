package configs

import (
	"fmt"
	"slices"
	"strings"
)

// Bounds of the kind bloom; package bloom has the same.
const (
	minErrorRate = 1e-6
	maxErrorRate = 0.5
	maxCapacity  = 1 << 40
)

// bloomKind is a bit-map of fixed size, which takes a few new items for seen.
func bloomKind() Kind {
	return Kind{
		Name: "bloom", Lacks: "items of a bloom filter do not expire", Fixed: true, BitMap: true,
		Parameters: []Parameter{
			{
				Key: "capacity", Like: "10000000",
				Value: func(f Filter) any { return f.Capacity },
				Check: func(f Filter) string { return checkCapacity(f.Capacity) },
			},
			{
				Key: "error_rate", Like: "0.0001",
				Value: func(f Filter) any { return f.ErrorRate },
				Check: func(f Filter) string { return checkErrorRate(f.ErrorRate) },
			},
			{
				Key:   "on_full",
				Value: func(f Filter) any { return f.OnFull },
				Check: func(f Filter) string { return checkOneOf(f.OnFull, "warn", "reject") },
			},
		},
		Complete: func(f Filter, d Defaults) Filter {
			if f.Capacity == 0 {
				f.Capacity = d.Capacity
			}
			if f.ErrorRate == 0 {
				f.ErrorRate = d.ErrorRate
			}
			if f.OnFull == "" {
				f.OnFull = "warn"
			}
			return f
		},
	}
}

func checkCapacity(n uint64) string {
	if n < 1 || n > maxCapacity {
		return fmt.Sprintf("%d: want 1 to %d items", n, uint64(maxCapacity))
	}
	return ""
}

func checkErrorRate(r float64) string {
	if !(r >= minErrorRate && r <= maxErrorRate) {
		return fmt.Sprintf("%v: want %v to %v", r, minErrorRate, maxErrorRate)
	}
	return ""
}

// checkOneOf wants value to be one of allowed.
func checkOneOf(value string, allowed ...string) string {
	if !slices.Contains(allowed, value) {
		return fmt.Sprintf("%q: want %s", value, strings.Join(allowed, " or "))
	}
	return ""
}
