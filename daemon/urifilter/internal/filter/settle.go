package filter

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// NewCommit makes the command commit.
func NewCommit() *cobra.Command {
	return newSettle("commit", "committed", "Make reserved items seen", `Make items seen that "urifilter reserve" has taken. Each line of the input is one of those that
it has printed: RESERVATION, a tab, the item. With --reservation all items of that one are
committed, and there is no input. What is lost is printed: items that another has taken after
the lease had ended, or that were forgotten. A run that fails may be repeated.`,
		client.CommitJSON[json.RawMessage])
}

// NewRelease makes the command release.
func NewRelease() *cobra.Command {
	return newSettle("release", "released", "Make reserved items new again", `Make items new again that "urifilter reserve" has taken. Each line of the input is one of those
that it has printed: RESERVATION, a tab, the item. With --reservation all items of that one
that are not committed are released, and there is no input. What is lost is printed: items
that another has taken after the lease had ended, or that are committed. A run that fails may
be repeated.`,
		client.ReleaseJSON[json.RawMessage])
}

// settleResult is what commit --json and release --json print.
type settleResult struct {
	Filter string `json:"filter"`
	Done   int64  `json:"done"`
	Lost   int64  `json:"lost"`
}

type settling = func(ctx context.Context, c *client.Client, typ, reservation string, items []json.RawMessage, options ...client.CallOption) (client.SettleResult[json.RawMessage], error)

func newSettle(name, past, short, long string, call settling) *cobra.Command {
	var asked flags
	var reservation string
	var asJSON bool
	var format inputFormat
	cmd := &cobra.Command{
		Use:     name + " [flags] [FILE|-]",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  urifilter %[1]s --filter jobs mine.txt\n  urifilter %[1]s --filter jobs --reservation 5f2b9c0a6d1e4f73829a0b1c2d3e4f50", name),
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := settleResult{Filter: asked.filter(cmd)}
			ndjson, out := format.ndjson(), bufio.NewWriter(cmd.OutOrStdout())
			settle := func(ctx context.Context, daemon *client.Client, id string, items []json.RawMessage) error {
				got, err := call(ctx, daemon, done.Filter, id, items)
				if err != nil {
					return err
				}
				done.Done += int64(got.Done)
				done.Lost += int64(got.LostTotal)
				for _, item := range got.Lost {
					if asJSON {
						break
					}
					if _, err := fmt.Fprintf(out, "lost\t%s\n", textOf(item, ndjson)); err != nil {
						return err
					}
				}
				return nil
			}
			var err error
			switch {
			case reservation == "":
				err = eachBatch(cmd, &asked, args, func(ctx context.Context, daemon *client.Client, b batch) error {
					return eachReservation(b, ndjson, func(id string, items []json.RawMessage) error { return settle(ctx, daemon, id, items) })
				})
			case len(args) > 0:
				return command.UsageError{Err: fmt.Errorf("--reservation is for all of its items, and %s has some%sleave one of them out", args[0], command.HintMark)}
			default:
				daemon, dialErr := asked.Dial(cmd)
				if dialErr != nil {
					return dialErr
				}
				defer daemon.Close()
				err = settle(cmd.Context(), daemon, reservation, nil)
			}
			if err = cmp.Or(err, out.Flush()); err != nil {
				return err
			}
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s items %s, %s lost\n", human.Count(done.Done), past, human.Count(done.Lost))
			return err
		},
	}
	asked.register(cmd)
	f := cmd.Flags()
	f.StringVar(&reservation, "reservation", "", "all items of that reservation, whose `name` reserve has printed before each")
	format.register(cmd, "what follows the tab")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// eachReservation calls do with the items of neighbouring lines that belong to one reservation.
func eachReservation(b batch, ndjson bool, do func(id string, items []json.RawMessage) error) error {
	var id string
	var items []json.RawMessage
	for i, line := range itemsOf(b, false) {
		of, item, tab := bytes.Cut(line, []byte{'\t'})
		value, err := valueOf(item, ndjson)
		switch {
		case !tab:
			return fmt.Errorf("item %d from line %d on: want RESERVATION, a tab and the item, as \"urifilter reserve\" prints them", i+1, b.first)
		case err != nil:
			return fmt.Errorf("item %d from line %d on: %w", i+1, b.first, err)
		}
		if string(of) != id && len(items) > 0 {
			if err := do(id, items); err != nil {
				return err
			}
			items = nil
		}
		id, items = string(of), append(items, value)
	}
	if len(items) == 0 {
		return nil
	}
	return do(id, items)
}

// reserveResult is what the command reserve has done, and prints at the end.
type reserveResult struct {
	read, taken, duplicates, reserved int64
}

// NewReserve makes the command reserve.
func NewReserve() *cobra.Command {
	var asked flags
	lease := 5 * time.Minute
	var format inputFormat
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
				items, err := valuesOf(b, format.ndjson())
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
					if _, err := fmt.Fprintf(out, "%s\t%s\n", got.Reservation, textOf(item, format.ndjson())); err != nil {
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
	format.register(cmd, "what the input holds")
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
