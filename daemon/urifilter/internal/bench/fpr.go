package bench

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/rates"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

func newFPR() *cobra.Command {
	var f formats
	var capacity human.Quantity
	errorRate, items, asked := 0.0001, 50_000, 0
	cmd := &cobra.Command{
		Use:   "fpr",
		Short: "False positives of Bloom filters: computed, and measured",
		Long: `The classic table of Bloom filters: the share of new items that is taken for seen, for 2 to 32
bits an item and 1 to 8 bits that are set for each (k), computed and measured, and beside
it the daemon's layout, whose 8 bits of an item are in one block of 512. Best k is that with
the least rate of classic filters.

With --capacity it measures one filter of the daemon's, of fixed size, at 25, 50, 100 and
150 % of its capacity. Low and high are the interval of 95 % for what was measured.`,
		Example: `  urifilter bench fpr --plot rates.svg
  urifilter bench fpr --capacity 10M --error-rate 0.0001
  urifilter bench fpr --csv > rates.csv`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			one := capacity.N > 0
			if cmd.Flags().Changed("error-rate") && !one {
				return usage("--error-rate: is for one filter, want --capacity, too")
			}
			if cmd.Flags().Changed("items") && one {
				return usage("--items: is for the table, and not for --capacity")
			}
			if items < 1000 || items > 10_000_000 {
				return usage("--items %d: want 1000 to 10000000", items)
			}
			if asked == 0 {
				asked = 500_000
				if one {
					asked = 10_000_000
				}
			}
			if asked < 1000 || asked > 1_000_000_000 {
				return usage("--asked %d: want 1000 to 1000000000", asked)
			}
			if one {
				if err := bloom.ValidCapacity(capacity.N, errorRate); err != nil {
					return usage("--error-rate %v: want %v to %v", errorRate, bloom.MinErrorRate, bloom.MaxErrorRate) // the capacity was checked
				}
				return measureFill(cmd, f, capacity.N, errorRate, asked)
			}
			p := terminal.NewProgress(cmd.ErrOrStderr(), true)
			rows, err := rates.Table(cmd.Context(), items, asked, func(done, of int) { p.Show("%d of %d rows", done, of) })
			p.Clear()
			if err != nil {
				return err
			}
			return f.show(cmd, rows, tableChart(rows), tableRows(rows), func(w io.Writer) error { return showTable(w, rows) })
		},
	}
	cmd.Flags().Var(&capacity, "capacity", "measure one filter for so many `items`, such as 10M")
	cmd.Flags().Float64Var(&errorRate, "error-rate", errorRate, "`share` of new items that this filter may take for seen, 0.000001 to 0.5")
	cmd.Flags().IntVar(&items, "items", items, "`items` in each filter of the table")
	cmd.Flags().IntVar(&asked, "asked", 0, "how many other `items` each filter is asked for (default: 500000, with --capacity 10000000)")
	f.register(cmd)
	return cmd
}

func measureFill(cmd *cobra.Command, f formats, capacity uint64, errorRate float64, asked int) error {
	p := terminal.NewProgress(cmd.ErrOrStderr(), true)
	fill, err := rates.Measure(cmd.Context(), capacity, errorRate, asked, func(done, of uint64) {
		p.Show("%s of %s items", human.Count(int64(done)), human.Count(int64(of)))
	})
	p.Clear()
	if err != nil {
		return err
	}
	return f.show(cmd, fill, fillChart(fill), fillRows(fill), func(w io.Writer) error { return showFill(w, fill) })
}

func short(rate float64) string { return strconv.FormatFloat(rate, 'g', 3, 64) }

// showTable writes the computed values, and under them the measurements.
func showTable(w io.Writer, rows []rates.Row) error {
	for _, part := range []struct {
		name string
		of   func(rates.Cell) float64
	}{
		{"computed", func(c rates.Cell) float64 { return c.Computed }},
		{"measured", func(c rates.Cell) float64 { return c.Measured }},
	} {
		head := []string{"bits an item", "best k", "its rate"}
		for k := 1; k <= rates.MaxK; k++ {
			head = append(head, fmt.Sprintf("k %d", k))
		}
		all := [][]string{append(head, "blocks, k 8")}
		for _, r := range rows {
			row := []string{strconv.Itoa(r.Bits), strconv.Itoa(r.BestK), short(r.BestRate)}
			for _, c := range r.Classic {
				row = append(row, short(part.of(c)))
			}
			all = append(all, append(row, short(part.of(r.Blocked))))
		}
		if _, err := fmt.Fprintf(w, "%s\n", part.name); err != nil {
			return err
		}
		if err := human.Table(w, all, nil); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(w, "%s items asked for in each filter; best k and its rate are computed; --csv has the intervals\n", human.Count(int64(rows[0].Blocked.Asked)))
	return err
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

func cellFields(c rates.Cell) []string {
	return []string{strconv.Itoa(c.K), number(c.Computed), number(c.Measured), number(c.Low), number(c.High), strconv.Itoa(c.Seen), strconv.Itoa(c.Asked)}
}

// tableRows are for CSV, and so are fillRows.
func tableRows(rows []rates.Row) [][]string {
	all := [][]string{{"layout", "bits_per_item", "k", "computed", "measured", "low", "high", "taken_for_seen", "asked"}}
	for _, r := range rows {
		for _, c := range r.Classic {
			all = append(all, append([]string{"classic", strconv.Itoa(r.Bits)}, cellFields(c)...))
		}
		all = append(all, append([]string{"blocked", strconv.Itoa(r.Bits)}, cellFields(r.Blocked)...))
	}
	return all
}

func fillRows(f rates.Fill) [][]string {
	all := [][]string{{"load", "items", "k", "computed", "measured", "low", "high", "taken_for_seen", "asked"}}
	for _, l := range f.Levels {
		all = append(all, append([]string{number(l.Load), strconv.FormatUint(l.Items, 10)}, cellFields(l.Cell)...))
	}
	return all
}

func showFill(w io.Writer, f rates.Fill) error {
	if _, err := fmt.Fprintf(w, "capacity %s, error rate %g: k %d, %s bits (%s), %.1f an item, %s blocks\na classic filter: k %d, %.1f bits an item, in as many places of memory\n\n",
		human.Count(int64(f.Capacity)), f.ErrorRate, f.K, human.Count(int64(f.Bits)), human.Bytes(int64(f.Bytes)), f.BitsPerItem, human.Count(int64(f.Blocks)), f.ClassicK, f.ClassicBits); err != nil {
		return err
	}
	rows := [][]string{{"load", "items", "expected", "measured", "low", "high", "taken for seen"}}
	for _, l := range f.Levels {
		rows = append(rows, []string{
			fmt.Sprintf("%.0f %%", 100*l.Load), human.Count(int64(l.Items)), short(l.Computed), short(l.Measured), short(l.Low), short(l.High),
			human.Count(int64(l.Seen)) + " of " + human.Count(int64(l.Asked)),
		})
	}
	return human.Table(w, rows, nil)
}

// onLowerEdge explains the points that a logarithm cannot show.
const onLowerEdge = "; a point on the lower edge: none was taken for seen"

// tableChart shows theory as lines, and measurements as points with their intervals.
func tableChart(rows []rates.Row) plot.Chart {
	c := plot.Chart{
		Title: "False positives of Bloom filters: theory and measurement",
		Notes: "lines are computed, points measured, with intervals of 95 %" + onLowerEdge,
		X:     plot.Axis{Label: "bits an item"}, Y: plot.Axis{Label: "share of new items taken for seen", Log: true},
	}
	for _, s := range []struct {
		name string
		of   func(rates.Row) rates.Cell
	}{
		{"k 1", func(r rates.Row) rates.Cell { return r.Classic[0] }},
		{"k 4", func(r rates.Row) rates.Cell { return r.Classic[3] }},
		{"k 8", func(r rates.Row) rates.Cell { return r.Classic[7] }},
		{"k 8 in one block", func(r rates.Row) rates.Cell { return r.Blocked }},
	} {
		line, points := plot.Series{Line: true}, plot.Series{Name: s.name}
		for _, r := range rows {
			cell := s.of(r)
			x := float64(r.Bits)
			line.Points = append(line.Points, plot.Point{X: x, Y: cell.Computed})
			points.Points = append(points.Points, plot.Point{X: x, Y: cell.Measured, Low: cell.Low, High: cell.High})
		}
		c.Series = append(c.Series, points, line)
	}
	return c
}

func fillChart(f rates.Fill) plot.Chart {
	expected := plot.Series{Name: "expected", Line: true}
	promised := plot.Series{Name: "promised", Line: true}
	measured := plot.Series{Name: "measured"}
	for _, l := range f.Levels {
		x := 100 * l.Load
		expected.Points = append(expected.Points, plot.Point{X: x, Y: l.Computed})
		promised.Points = append(promised.Points, plot.Point{X: x, Y: l.Promised})
		measured.Points = append(measured.Points, plot.Point{X: x, Y: l.Measured, Low: l.Low, High: l.High})
	}
	return plot.Chart{
		Title: fmt.Sprintf("False positives of a filter for %s items at %g", human.Count(int64(f.Capacity)), f.ErrorRate),
		Notes: "points are measured, with intervals of 95 %" + onLowerEdge,
		X:     plot.Axis{Label: "items, per cent of the capacity", From: 20}, Y: plot.Axis{Label: "share of new items taken for seen", Log: true},
		Series: []plot.Series{expected, measured, promised},
	}
}
