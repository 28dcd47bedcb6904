package bench

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/hashes"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

func newHash() *cobra.Command {
	var f formats
	items, file := 100_000, ""
	cmd := &cobra.Command{
		Use:   "hash",
		Short: "Hash functions: their speed, and what they do to a Bloom filter",
		Long: `How long each of fifteen hash functions takes for a string of 32 letters, and what it does to
a Bloom filter: --items are put in, as many others asked for. "of ideal" is by how much
more of these were taken for seen than by a perfect function: 1.0 keeps the promised error
rate, 10 breaks it ten times. Inputs are random strings of 32 letters, URLs that differ in
digits only, and with --input the lines of a file, of which every second one is put in.

The filter has 7 bits an item in a map of a power of two, at least 10 bits an item. Functions
without salts or seeds give them by double hashing. The time is that of one hash: salted
ones, and the multiplicative one, are computed for each of the 7. What has less than 1.0 puts
items that follow each other side by side. No function of 32 bits is for millions of items:
of n items, n / 4.3 billion more are called seen, whatever the size of the filter.`,
		Example: `  urifilter bench hash
  urifilter bench hash --input urls.txt --plot hashes.svg
  urifilter bench hash --csv > hashes.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if items < hashes.MinItems || items > 10_000_000 {
				return usage("--items %d: want %d to 10000000", items, hashes.MinItems)
			}
			if err := f.check(); err != nil {
				return err
			}
			inputs := []hashes.Input{hashes.Letters(items), hashes.Digits(items)}
			if file != "" {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				in, err := hashes.Lines(file, bytes.Split(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")), []byte("\n")))
				if err != nil {
					return err
				}
				inputs = append(inputs, in)
			}
			p := newProgress(cmd)
			results, err := hashes.Measure(cmd.Context(), hashes.All(), inputs, func(done, of int, name string) { p.show("%d of %d functions: %s", done, of, name) })
			p.clear()
			if err != nil {
				return err
			}
			if err := f.draw(hashChart(results)); err != nil {
				return err
			}
			switch {
			case f.asJSON:
				return command.WriteJSON(cmd.OutOrStdout(), results)
			case f.asCSV:
				return hashCSV(cmd.OutOrStdout(), results)
			}
			return hashTable(cmd.OutOrStdout(), results)
		},
	}
	cmd.Flags().IntVar(&items, "items", items, "how many `items` are put into the filters")
	cmd.Flags().StringVar(&file, "input", "", "a `file` of items, one a line")
	f.register(cmd)
	return cmd
}

func hashTable(w io.Writer, results []hashes.Result) error {
	head := []string{"function", "bits", "ns", "of fastest"}
	for _, r := range results[0].Rates {
		head = append(head, r.Input, "of ideal")
	}
	rows := [][]string{head}
	for _, r := range results {
		row := []string{r.Name, strconv.Itoa(r.Bits), fmt.Sprintf("%.1f", r.Nanos), fmt.Sprintf("%.1f", r.Factor)}
		for _, rate := range r.Rates {
			row = append(row, fmt.Sprintf("%.3f %%", 100*rate.Measured), factor(rate))
		}
		rows = append(rows, row)
	}
	if err := human.Table(w, rows, map[int]bool{0: true}); err != nil {
		return err
	}
	for _, rate := range results[0].Rates {
		if _, err := fmt.Fprintf(w, "%s: %s items, %s asked for, ideal %.3f %%\n", rate.Input, human.Count(int64(rate.Items)), human.Count(int64(rate.Asked)), 100*rate.Ideal); err != nil {
			return err
		}
	}
	return nil
}

// factor is a rate's to the ideal; 1 where its interval has the ideal in it.
func factor(r hashes.Rate) string {
	if r.Low <= r.Ideal && r.Ideal <= r.High {
		return "1.0"
	}
	if r.Factor < 0.1 {
		return fmt.Sprintf("%.2f", r.Factor)
	}
	return fmt.Sprintf("%.1f", r.Factor)
}

func hashCSV(w io.Writer, results []hashes.Result) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"function", "bits", "ns", "factor_to_fastest", "input", "items", "asked", "taken_for_seen", "false_positive_rate", "low", "high", "ideal", "factor_to_ideal"})
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for _, r := range results {
		for _, rate := range r.Rates {
			_ = out.Write([]string{
				r.Name, strconv.Itoa(r.Bits), number(r.Nanos), number(r.Factor), rate.Input, strconv.Itoa(rate.Items), strconv.Itoa(rate.Asked),
				strconv.Itoa(rate.Seen), number(rate.Measured), number(rate.Low), number(rate.High), number(rate.Ideal), number(rate.Factor),
			})
		}
	}
	out.Flush()
	return out.Error() // of any of the writes
}

// hashChart shows speed against quality. What takes fewer for seen than the ideal, as those that
// put consecutive numbers side by side, is shown where it is, down to a tenth.
func hashChart(results []hashes.Result) plot.Chart {
	c := plot.Chart{
		Title: "Hash functions: speed and quality inside a Bloom filter",
		Notes: "best: lower left. 1 is what a perfect function gives; bars are intervals of 95 %, and 0.1 is that or less",
		X:     plot.Axis{Label: "nanoseconds for 32 letters", Log: true},
		Y:     plot.Axis{Label: "false positives, times the ideal", Log: true},
	}
	for i, rate := range results[0].Rates {
		s := plot.Series{Name: rate.Input}
		for _, r := range results {
			rate := r.Rates[i]
			const least = 0.1
			s.Points = append(s.Points, plot.Point{
				X: r.Nanos, Y: max(rate.Factor, least), Low: max(rate.Low/rate.Ideal, least), High: max(rate.High/rate.Ideal, least), Label: r.Name,
			})
		}
		if i != 1 { // a name each is enough
			for j := range s.Points {
				s.Points[j].Label = ""
			}
		}
		c.Series = append(c.Series, s)
	}
	return c
}
