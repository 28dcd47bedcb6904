package filter

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

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
	format := choice{inputLines, []string{inputLines, inputNDJSON}}
	cmd := &cobra.Command{
		Use:     name + " [flags] [FILE|-]",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  urifilter %[1]s --filter jobs mine.txt\n  urifilter %[1]s --filter jobs --reservation 5f2b9c0a6d1e4f73829a0b1c2d3e4f50", name),
		Args:    oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := settleResult{Filter: asked.filter(cmd)}
			ndjson, out := format.value == inputNDJSON, bufio.NewWriter(cmd.OutOrStdout())
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
				return fmt.Errorf("--reservation is for all of its items, and %s has some%sleave one of them out", args[0], command.HintMark)
			default:
				daemon, dialErr := asked.Dial(cmd)
				if dialErr != nil {
					return dialErr
				}
				defer daemon.Close()
				err = settle(cmd.Context(), daemon, reservation, nil)
			}
			if err = errors.Join(err, out.Flush()); err != nil {
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
	f.VarP(&format, "input-format", "f", "what follows the tab: `FORMAT` lines is plain text, ndjson a JSON value a line")
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
