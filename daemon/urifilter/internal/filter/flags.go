package filter

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// flags are the flags of a command that asks one filter of a daemon about items.
type flags struct {
	connection.Flags
	typ string
}

// register adds them to a command.
func (f *flags) register(cmd *cobra.Command) {
	f.Register(cmd)
	f.RegisterFilter(cmd, &f.typ, defaultFilter, "`name` or id of the filter")
}

// filter returns the name of the filter to ask.
func (f *flags) filter(cmd *cobra.Command) string {
	return connection.Filter(cmd, f.typ)
}

// oneFile is the check of the arguments of commands that read a file.
func oneFile(cmd *cobra.Command, args []string) error {
	if len(args) < 2 {
		return nil
	}
	hint := fmt.Sprintf("`cat FILE... | %s` reads several files", cmd.CommandPath())
	if _, err := os.Stat(args[0]); err != nil && filterName.MatchString(args[0]) {
		hint = fmt.Sprintf("the filter is named by a flag: %s --filter %s %s", cmd.CommandPath(), args[0], args[1])
	}
	return command.UsageError{Err: fmt.Errorf("%w%s%s", cobra.MaximumNArgs(1)(cmd, args), command.HintMark, hint)}
}

// filterName is what the name of a filter, or its id, looks like that is hardly one of a file.
var filterName = regexp.MustCompile(`^([0-9]+|[A-Za-z_][A-Za-z0-9_-]{0,63})$`)

// withInput passes do the daemon, and the lines of the file that args may name, else of the standard input.
func (f *flags) withInput(cmd *cobra.Command, args []string, do func(*client.Client, *input) error) error {
	name := "-"
	if len(args) > 0 {
		name = args[0]
	}
	daemon, err := f.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	source, _, err := openInput(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer source.Close()
	in := newInput(&unpacked{source: source})
	defer in.close()
	return do(daemon, in)
}

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
