// Package bench holds the commands bench ..., with which people choose a filter by measurement.
package bench

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
)

// New makes the commands.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure hash functions, false positives, and a daemon under load",
		Example: `  urifilter bench load --connections 16
  urifilter bench hash --input urls.txt
  urifilter bench fpr --capacity 1M --error-rate 0.0001`,
	}
	command.Parent(cmd)
	cmd.AddCommand(newHash(), newFPR(), newLoad())
	return cmd
}

func usage(format string, args ...any) error {
	return command.UsageError{Err: fmt.Errorf(format, args...)}
}

// formats are how results are printed.
type formats struct {
	asJSON, asCSV bool
	plots         []string
}

func (f *formats) register(cmd *cobra.Command) {
	f.registerPicture(cmd)
	cmd.Flags().BoolVar(&f.asCSV, "csv", false, "print CSV, for tables")
	cmd.MarkFlagsMutuallyExclusive("json", "csv")
}

// registerPicture is register without CSV.
func (f *formats) registerPicture(cmd *cobra.Command) {
	command.JSONFlag(cmd, &f.asJSON)
	cmd.Flags().StringSliceVar(&f.plots, "plot", nil, "draw into a `file`, PNG or SVG by its name; may be given twice")
}

// check validates the flags before anything is measured.
func (f *formats) check() error {
	for _, name := range f.plots {
		if err := plot.Check(name); err != nil {
			return usage("--%w", err)
		}
	}
	return nil
}

// show prints a result, and draws it.
func (f *formats) show(cmd *cobra.Command, result any, c plot.Chart, rows [][]string, table func(io.Writer) error) error {
	return errors.Join(f.print(cmd.OutOrStdout(), result, rows, table), f.draw(c))
}

// print prints a result: as JSON, with the rows of a CSV, or by table.
func (f *formats) print(out io.Writer, result any, rows [][]string, table func(io.Writer) error) error {
	switch {
	case f.asJSON:
		return command.WriteJSON(out, result)
	case f.asCSV:
		return csv.NewWriter(out).WriteAll(rows)
	}
	return table(out)
}

func (f *formats) draw(c plot.Chart) error {
	for _, name := range f.plots {
		if err := c.Write(name); err != nil {
			return err
		}
	}
	return nil
}
