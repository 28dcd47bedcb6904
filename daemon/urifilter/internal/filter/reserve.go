package filter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// reserveResult is what the command reserve has done, and prints at the end.
type reserveResult struct {
	read, taken, duplicates, reserved int64
}

// NewReserve makes the command reserve.
func NewReserve() *cobra.Command {
	var asked flags
	lease := 5 * time.Minute
	format := choice{inputLines, []string{inputLines, inputNDJSON}}
	cmd := &cobra.Command{
		Use:   "reserve [flags] [FILE|-]",
		Short: "Reserve new items for a while, to be committed or released",
		Long: `Take the new items of an input for a while, in a filter of the kind exact or timing,
and print each with its reservation before it: RESERVATION, a tab, the item. Nobody else is
given them until the lease ends. "urifilter commit" and "urifilter release" read such lines,
and make items seen or new again. The input is that of "urifilter filter"; each part of
about 1 MiB has a reservation of its own.

The numbers at the end go to standard error. A run that breaks off may have reserved items
that it has not printed: they are new again when the lease ends.`,
		Example: `  urifilter reserve --filter jobs --lease 10m urls.txt > mine.txt
  cut -f2 mine.txt | wget -i - && urifilter commit --filter jobs mine.txt`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			var done reserveResult
			filter := asked.filter(cmd)
			out := bufio.NewWriter(cmd.OutOrStdout())
			err := eachBatch(cmd, &asked, args, func(ctx context.Context, daemon *client.Client, b batch) error {
				items, err := valuesOf(b, format.value == inputNDJSON)
				if err != nil || len(items) == 0 {
					return err
				}
				got, err := client.ReserveJSON(ctx, daemon, filter, items, lease)
				if err != nil {
					return err
				}
				done.read += int64(got.Total)
				done.taken += int64(len(got.URIList))
				done.duplicates += int64(got.Duplicates)
				done.reserved += int64(got.Reserved)
				for _, item := range got.URIList {
					if _, err := fmt.Fprintf(out, "%s\t%s\n", got.Reservation, textOf(item, format.value == inputNDJSON)); err != nil {
						return err
					}
				}
				return out.Flush()
			})
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "%s items: %s reserved for %v, %s duplicates, %s reserved by others\n",
				human.Count(done.read), human.Count(done.taken), lease, human.Count(done.duplicates), human.Count(done.reserved))
			return err
		},
	}
	asked.register(cmd)
	f := cmd.Flags()
	f.VarP(&format, "input-format", "f", "what the input holds: `FORMAT` lines is plain text, ndjson a JSON value a line")
	f.DurationVar(&lease, "lease", lease, "how long nobody else gets the items: `TIME` such as 30s, 10m or 24h, at most a day")
	return cmd
}

// valuesOf returns the items of a batch as JSON.
func valuesOf(b batch, ndjson bool) ([]json.RawMessage, error) {
	var values []json.RawMessage
	for i, item := range itemsOf(b, ndjson) {
		value, err := valueOf(item, ndjson)
		if err != nil {
			return nil, fmt.Errorf("item %d from line %d on: %w", i+1, b.first, err)
		}
		values = append(values, value)
	}
	return values, nil
}
