package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// forgetResult is what forget --json prints.
type forgetResult struct {
	Filter    string `json:"filter"`
	Read      int64  `json:"read"` // items
	Forgotten int64  `json:"forgotten"`
}

// NewForget makes the command forget.
func NewForget() *cobra.Command {
	var asked flags
	var asJSON bool
	var format inputFormat
	cmd := &cobra.Command{
		Use:   "forget [flags] [FILE|-]",
		Short: "Make items new again",
		Long: `Make items new again, in a filter of the kind exact or timing, and print how many of
them were seen. The input is that of "urifilter filter". It needs a token of the scope
forget, where tokens are in use.

A filter of the kind bloom cannot forget single items; "urifilter filters clear" forgets
all of any filter. A run that fails may be repeated.`,
		Example: `  urifilter forget --filter jobs failed.txt
  echo https://example.com/1 | urifilter forget --filter jobs`,
		Args: oneFile,
		RunE: func(cmd *cobra.Command, args []string) error {
			done := forgetResult{Filter: asked.filter(cmd)}
			err := asked.withInput(cmd, args, func(daemon *client.Client, in *input) error {
				return done.forgetAll(cmd.Context(), daemon, in, format.ndjson())
			})
			if err != nil {
				return err
			}
			if asJSON {
				return command.WriteJSON(cmd.OutOrStdout(), done)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s of %s items forgotten\n", human.Count(done.Forgotten), human.Count(done.Read))
			return err
		},
	}
	asked.register(cmd)
	f := cmd.Flags()
	format.register(cmd, "what the input holds")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// forgetAll forgets the items of an input, batch by batch.
func (r *forgetResult) forgetAll(ctx context.Context, daemon *client.Client, in *input, ndjson bool) error {
	for {
		b, err := in.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var n, read int
		if err != nil {
			b = batch{first: in.line + 1}
		} else {
			n, read, err = forgetBatch(ctx, daemon, r.Filter, itemsOf(b, ndjson), ndjson)
		}
		if err != nil {
			return r.broken(b, err)
		}
		r.Read += int64(read)
		r.Forgotten += int64(n)
	}
}

// broken adds to an error what is certain about a run that failed at a batch.
func (r *forgetResult) broken(b batch, err error) error {
	err = atLine(b, err)
	switch certain := b.lines == 0 || nothingRemembered(err); {
	case certain && r.Read == 0:
		return err // nothing has happened
	case certain:
		return fmt.Errorf("%w\n%s items are forgotten; nothing from line %d on is%sthe run may be repeated as it is",
			err, human.Count(r.Forgotten), b.first, command.HintMark)
	default:
		return fmt.Errorf("%w\n%s items are forgotten, and maybe those of %s, too%sthe run may be repeated as it is",
			err, human.Count(r.Forgotten), lines(b.first, b.last()), command.HintMark)
	}
}

// forgetBatch forgets items, and returns their number.
func forgetBatch(ctx context.Context, daemon *client.Client, typ string, items [][]byte, ndjson bool) (n, read int, err error) {
	if len(items) == 0 {
		return 0, 0, nil
	}
	if ndjson {
		values := make([]json.RawMessage, 0, len(items))
		for _, item := range items {
			values = append(values, item)
		}
		n, err = client.ForgetJSON(ctx, daemon, typ, values)
		return n, len(items), err
	}
	texts := make([]string, 0, len(items))
	for _, item := range items {
		texts = append(texts, string(item))
	}
	n, err = daemon.Forget(ctx, typ, texts)
	return n, len(items), err
}
