package main

import (
	"bytes"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
)

func newCheckCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "check [flags] [FILE|-]",
		Short: "Print the items that would be new, and remember nothing",
		Long: `Print the items that would be new, in their order, and remember nothing.

The input is that of "urifilter filter". Each item is judged as if it stood alone, so
that an item that stands in the input twice may be new twice.`,
		Example: `  urifilter check --type uri_generator links.txt

  # each item with its verdict: new or seen, a tab, the item
  urifilter check --all links.txt`,
	}
	b := &batchCommand{judge: func(c *client.Client, typ string, ndjson bool, _ ...client.CallOption) func(context.Context, batch) (verdicts, error) {
		return checkBatch(c, typ, ndjson, all)
	}}
	b.register(cmd)
	cmd.Flags().BoolVarP(&all, "all", "a", false, "print all items, as new or seen, a tab, the item")
	return cmd
}

// checkBatch judges a batch; the text is that of the new items, or of all.
func checkBatch(c *client.Client, typ string, ndjson, all bool) func(context.Context, batch) (verdicts, error) {
	call, isNew := c.CheckLines, "new"
	if ndjson {
		call, isNew = c.CheckNDJSON, "true"
	}
	return func(ctx context.Context, b batch) (verdicts, error) {
		var words bytes.Buffer
		if _, err := call(ctx, typ, bytes.NewReader(b.data), &words); err != nil {
			return verdicts{}, err
		}
		return join(itemsOf(b, ndjson), words.Bytes(), isNew, all)
	}
}

// join puts each item to its verdict.
func join(items [][]byte, words []byte, isNew string, all bool) (verdicts, error) {
	v := verdicts{read: int64(len(items))}
	for i, item := range items {
		word, rest, ok := bytes.Cut(words, []byte{'\n'})
		if !ok {
			return verdicts{}, fmt.Errorf("answer: %d verdicts for %d items", i, len(items))
		}
		words = rest
		fresh := string(word) == isNew
		if fresh {
			v.fresh++
		}
		switch {
		case all && fresh:
			v.text = append(v.text, "new\t"...)
		case all:
			v.text = append(v.text, "seen\t"...)
		case !fresh:
			continue
		}
		v.text = append(append(v.text, item...), '\n')
	}
	if len(words) > 0 {
		return verdicts{}, fmt.Errorf("answer: more verdicts than the %d items", len(items))
	}
	return v, nil
}

// itemsOf cuts a batch as the daemon does.
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
