package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/cr-clawer/urifilter/client"
)

// batchCommand is what filter and check have in common.
type batchCommand struct {
	conn          connection
	typ           string
	ndjson, quiet bool
	expire        expireFlag
	remembers     bool
	judge         func(c *client.Client, typ string, ndjson bool, options ...client.CallOption) func(context.Context, batch) (verdicts, error)
}

func (b *batchCommand) register(cmd *cobra.Command) {
	b.conn.register(cmd)
	b.conn.registerPatience(cmd)
	f := cmd.Flags()
	f.StringVarP(&b.typ, "type", "t", defaultType, "name or id of the `filter` (env URIFILTER_TYPE)")
	f.BoolVar(&b.ndjson, "json", false, "each line is a JSON value, instead of plain text")
	f.BoolVarP(&b.quiet, "quiet", "q", false, "no summary and no progress")
	if b.remembers {
		b.expire.register(cmd, "for a filter of the kind timing: `time` for which the new items are remembered, such as 90, 36h or 30d")
	} else {
		b.expire.register(cmd, "a `time` as for \"urifilter filter\"; it makes no difference here")
	}
	if err := cmd.RegisterFlagCompletionFunc("type", b.conn.completeFilter); err != nil {
		panic(err) // --type is defined above
	}
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := "-"
		if len(args) > 0 {
			name = args[0]
		}
		return b.run(cmd, name)
	}
}

func (b *batchCommand) run(cmd *cobra.Command, name string) error {
	daemon, err := b.conn.dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	source, size, err := openInput(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer source.Close()
	errOut, out := cmd.ErrOrStderr(), cmd.OutOrStdout()
	if isTerminal(source.Reader) && isTerminal(errOut) && !b.quiet {
		fmt.Fprintln(errOut, "reading items from the terminal, one a line; end with Ctrl-D")
	}
	start := time.Now()
	typ := flagOrEnv(cmd, "type", b.typ, "URIFILTER_TYPE")
	t := &transfer{
		judge:     b.judge(daemon, typ, b.ndjson, b.expire.options()...),
		out:       out,
		remembers: b.remembers,
		timeout:   b.conn.timeout,
		patience:  b.conn.patience,
	}
	if !b.quiet {
		t.notice = errOut
	}
	// On a terminal the items show by themselves how far things are.
	if isTerminal(errOut) && !isTerminal(out) && !b.quiet {
		t.progress = newProgress(errOut, size)
	}
	t.input = &unpacked{source: source}
	in := newInput(t.input)
	defer in.close()
	err = t.run(cmd.Context(), in)
	t.progress.clear()
	if err == nil && !b.quiet {
		fmt.Fprintln(errOut, t.total.summary(time.Since(start), b.remembers))
	}
	if err == nil {
		warnOverCapacity(cmd.Context(), errOut, daemon, typ)
	}
	return err
}

// opened is an input and what closes it: nothing, for the standard input.
type opened struct {
	io.Reader
	close func() error
}

func (o opened) Close() error { return o.close() }

// openInput opens the file called name, "-" for stdin, and tells its size, 0 if it has none.
func openInput(stdin io.Reader, name string) (opened, int64, error) {
	if name == "-" {
		f, ok := stdin.(*os.File)
		if !ok {
			return opened{stdin, func() error { return nil }}, 0, nil
		}
		return opened{f, func() error { return nil }}, sizeOf(f), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return opened{}, 0, err
	}
	return opened{f, f.Close}, sizeOf(f), nil
}

func sizeOf(f *os.File) int64 {
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		return info.Size()
	}
	return 0
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
