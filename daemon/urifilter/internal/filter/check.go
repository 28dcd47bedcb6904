package filter

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
)

// NewCheck makes the command check.
func NewCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check [flags] [FILE|-]",
		Short: "Print the items that would be new, and remember nothing",
		Long: `Print the items that would be new, in their order, and remember nothing.

The input is that of "urifilter filter". Each item is judged as if it stood alone, so
that an item that stands in the input twice may be new twice. --skip-invalid and --summary
are those of "urifilter filter"; what filter counts as duplicates are here items that are seen.`,
		Example: `  urifilter check --filter uri_generator links.txt

  # each item with its verdict: new or seen, a tab, the item
  urifilter check --all links.txt`,
	}
	b := &batchCommand{}
	b.judge = func(c *client.Client, typ string) func(context.Context, batch) (verdicts, error) {
		return b.checkBatch(c, typ)
	}
	b.register(cmd)
	cmd.Flags().BoolVarP(&b.all, "all", "a", false, "print all items, as new, seen or (with --skip-invalid) invalid, a tab, the item")
	return cmd
}

// checkBatch judges a batch; the text lists the new items, or all.
func (b *batchCommand) checkBatch(c *client.Client, typ string) func(context.Context, batch) (verdicts, error) {
	call, words := c.CheckLines, map[string]string{"new": "new", "seen": "seen", "invalid": "invalid"}
	if b.input.ndjson() {
		call, words = c.CheckNDJSON, map[string]string{"true": "new", "false": "seen", "null": "invalid"}
	}
	return func(ctx context.Context, part batch) (verdicts, error) {
		var answer bytes.Buffer
		var skipped client.InvalidItems
		if _, err := call(ctx, typ, bytes.NewReader(part.data), &answer, b.callOptions(&skipped)...); err != nil {
			return verdicts{}, err
		}
		v, err := join(itemsOf(part, b.input.ndjson()), answer.Bytes(), words, b.all)
		v.skipped = skipped
		return v, err
	}
}

// join pairs each item with its verdict; words translates the verdicts of the answer.
func join(items [][]byte, answer []byte, words map[string]string, all bool) (verdicts, error) {
	v := verdicts{read: int64(len(items))}
	for i, item := range items {
		line, rest, ok := bytes.Cut(answer, []byte{'\n'})
		word := words[string(line)]
		if !ok || word == "" {
			return verdicts{}, fmt.Errorf("answer: %d verdicts for %d items", i, len(items))
		}
		answer = rest
		if word == "new" {
			v.fresh++
		}
		if all {
			v.text = append(append(v.text, word...), '\t')
		} else if word != "new" {
			continue
		}
		v.text = append(append(v.text, item...), '\n')
	}
	if len(answer) > 0 {
		return verdicts{}, fmt.Errorf("answer: more verdicts than the %d items", len(items))
	}
	return v, nil
}

// itemsOf splits a batch as the daemon does.
func itemsOf(b batch, ndjson bool) [][]byte {
	items := make([][]byte, 0, b.lines)
	for rest := bytes.TrimPrefix(b.data, byteOrderMark); len(rest) > 0; {
		item, after, ended := bytes.Cut(rest, []byte{'\n'})
		rest = after
		switch {
		case ndjson:
			item = bytes.Trim(item, " \t\r")
		case ended:
			item = bytes.TrimSuffix(item, []byte{'\r'})
		}
		if len(item) > 0 {
			items = append(items, item)
		}
	}
	return items
}
