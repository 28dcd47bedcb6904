package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/bench/report"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/hashes"
)

// hashFunctions measures what `urifilter bench hash` measures, for the docs.
func hashFunctions(s settings) error {
	const items = 100_000
	inputs := []hashes.Input{hashes.Letters(items), hashes.Digits(items)}
	results, err := hashes.Measure(context.Background(), hashes.All(), inputs, func(int, int, string) {})
	if err != nil {
		return err
	}
	t := report.Table{{"function", "bits", "ns", "of the fastest", "32 letters", "of ideal", "digits", "of ideal"}}
	for _, r := range results {
		row := []string{r.Name, strconv.Itoa(r.Bits), fmt.Sprintf("%.1f", r.Nanos), fmt.Sprintf("%.1f", r.Factor)}
		for _, rate := range r.Rates {
			row = append(row, fmt.Sprintf("%.3f %%", 100*rate.Measured), rate.OfIdeal())
		}
		t.Row(row...)
		s.out.Run("Hash/function="+r.Name, report.Nanos("op", r.Nanos), report.Value{N: r.Rates[0].Factor, Unit: "letters-of-ideal"}, report.Value{N: r.Rates[1].Factor, Unit: "digits-of-ideal"})
	}
	first := results[0].Rates[0]
	s.out.Runs = 0 // the shortest of several times counts
	s.out.Table("hash", fmt.Sprintf("%d items in a map of 2^20 bits, k %d, ideal %.3f %%; the rates are the same in every run", items, hashes.K, 100*first.Ideal), t)
	s.out.Chart("hashes", hashes.Chart(results))
	return nil
}
