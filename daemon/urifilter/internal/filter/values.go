package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
)

// eachBatch calls do with each batch of an input. An error names its lines; all lines before
// them are done.
func eachBatch(cmd *cobra.Command, asked *flags, args []string, do func(context.Context, *client.Client, batch) error) error {
	return asked.withInput(cmd, args, func(daemon *client.Client, in *input) error {
		for {
			b, err := in.next(cmd.Context())
			switch {
			case errors.Is(err, io.EOF):
				return nil
			case err != nil:
				return err
			}
			if err := do(cmd.Context(), daemon, b); err != nil {
				if b.first == 1 {
					return atLine(b, err)
				}
				return fmt.Errorf("%w\nwhat stands before line %d is done", atLine(b, err), b.first)
			}
		}
	})
}

// valueOf returns an item as JSON. An item that is not UTF-8 is an error, as encoding/json would change it.
func valueOf(item []byte, ndjson bool) (json.RawMessage, error) {
	switch {
	case ndjson && !json.Valid(item):
		return nil, errors.New("it is no JSON value")
	case !utf8.Valid(item):
		return nil, errors.New("it is not UTF-8")
	case ndjson:
		return bytes.Clone(item), nil
	}
	return json.Marshal(string(item))
}

// textOf returns an item as a line.
func textOf(value json.RawMessage, ndjson bool) string {
	var text string
	if !ndjson && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}
