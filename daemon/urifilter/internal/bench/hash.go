package bench

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/hashes"
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
			p := terminal.NewProgress(cmd.ErrOrStderr(), true)
			results, err := hashes.Measure(cmd.Context(), hashes.All(), inputs, func(done, of int, name string) { p.Show("%d of %d functions: %s", done, of, name) })
			p.Clear()
			if err != nil {
				return err
			}
			return f.show(cmd, results, hashes.Chart(results), hashRows(results), func(w io.Writer) error { return hashTable(w, results) })
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
			row = append(row, fmt.Sprintf("%.3f %%", 100*rate.Measured), rate.OfIdeal())
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

// hashRows are for CSV.
func hashRows(results []hashes.Result) [][]string {
	rows := [][]string{{"function", "bits", "ns", "factor_to_fastest", "input", "items", "asked", "taken_for_seen", "false_positive_rate", "low", "high", "ideal", "factor_to_ideal"}}
	for _, r := range results {
		for _, rate := range r.Rates {
			rows = append(rows, []string{
				r.Name, strconv.Itoa(r.Bits), number(r.Nanos), number(r.Factor), rate.Input, strconv.Itoa(rate.Items), strconv.Itoa(rate.Asked),
				strconv.Itoa(rate.Seen), number(rate.Measured), number(rate.Low), number(rate.High), number(rate.Ideal), number(rate.Factor),
			})
		}
	}
	return rows
}
