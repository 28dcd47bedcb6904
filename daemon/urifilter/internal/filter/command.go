package filter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/connection"
)

// batchCommand is the common part of filter and check.
type batchCommand struct {
	conn        flags
	input       inputFormat
	as          asValue
	oldJSON     bool
	skipInvalid bool
	summary     choice
	quiet       bool
	expire      connection.Expire
	remembers   bool
	all         bool // of check: print each item with its verdict
	judge       func(c *client.Client, typ string) func(context.Context, batch) (verdicts, error)
}

// defaultFilter is used if no filter is named.
const defaultFilter = "uri"

// The forms of an input.
const (
	inputLines  = "lines"
	inputNDJSON = "ndjson"
)

// inputFormat is the flag --input-format of a command that reads items.
type inputFormat struct{ choice }

// register adds the flag; holds says of what it is the form.
func (f *inputFormat) register(cmd *cobra.Command, holds string) {
	f.choice = choice{inputLines, []string{inputLines, inputNDJSON}}
	cmd.Flags().VarP(f, "input-format", "f", holds+": `FORMAT` lines is plain text, ndjson a JSON value a line")
	if err := cmd.RegisterFlagCompletionFunc("input-format", f.complete()); err != nil {
		panic(err) // it is defined above
	}
}

func (f *inputFormat) ndjson() bool { return f.value == inputNDJSON }

// The forms of a summary.
const (
	summaryText = "text"
	summaryJSON = "json"
	summaryNone = "none"
)

func (b *batchCommand) register(cmd *cobra.Command) {
	b.conn.register(cmd)
	b.conn.RegisterPatience(cmd)
	f := cmd.Flags()
	b.input.register(cmd, "what the input holds")
	f.Var(&b.as, "as", "take the items out of a file: `FORM` is csv:COLUMN (name, or number from 1), sitemap, cdx or scrapy (requests.seen)")
	f.BoolVar(&b.oldJSON, "json", false, "")
	if err := f.MarkHidden("json"); err != nil {
		panic(err) // it is defined above
	}
	f.BoolVar(&b.skipInvalid, "skip-invalid", false, "skip items that are invalid, and report them, instead of failing")
	b.summary = choice{summaryText, []string{summaryText, summaryJSON, summaryNone}}
	f.Var(&b.summary, "summary", "`FORM` of the summary on the standard error: text, json (one line, of a run that failed too) or none")
	f.BoolVarP(&b.quiet, "quiet", "q", false, "no progress, no notices, and no summary but the one that --summary asks for")
	if b.remembers {
		b.expire.Register(cmd, "for a filter of the kind timing: `time` for which the new items are remembered, such as 90, 36h or 30d")
	} else {
		b.expire.Register(cmd, "a `time` as for \"urifilter filter\"; it makes no difference here")
	}
	for flag, complete := range map[string]cobra.CompletionFunc{"summary": b.summary.complete(),
		"as": cobra.FixedCompletions([]string{"csv:", "sitemap", "cdx", asScrapy}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace)} {
		if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
			panic(err) // the flag is defined above
		}
	}
	cmd.Args = oneFile
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name := "-"
		if len(args) > 0 {
			name = args[0]
		}
		return b.run(cmd, name)
	}
}

// errOldJSON is for the old meaning of --json, before it meant the same for all commands.
var errOldJSON = command.UsageError{Err: errors.New("--json: it asks for output in JSON, and said here that the input is JSON" +
	command.HintMark + "for input in JSON, a value a line: --input-format ndjson; for a summary in JSON: --summary json")}

// check validates the flags before anything is opened.
func (b *batchCommand) check(cmd *cobra.Command) error {
	if b.oldJSON {
		return errOldJSON
	}
	if b.as != "" && b.input.ndjson() {
		return command.UsageError{Err: errors.New("--as: it makes lines of the items, which --input-format ndjson does not read")}
	}
	if b.quiet && !cmd.Flags().Changed("summary") {
		b.summary.value = summaryNone
	}
	return nil
}

func (b *batchCommand) run(cmd *cobra.Command, name string) error {
	if err := b.check(cmd); err != nil {
		return err
	}
	daemon, err := b.conn.Dial(cmd)
	if err != nil {
		return err
	}
	defer daemon.Close()
	source, size, err := openInput(cmd.InOrStdin(), name)
	if err != nil {
		return err
	}
	defer source.Close()
	if terminal.Is(source.Reader) && terminal.Is(cmd.ErrOrStderr()) && !b.quiet {
		fmt.Fprintln(cmd.ErrOrStderr(), "reading items from the terminal, one a line; end with Ctrl-D")
	}
	text := b.unpacked(source)
	return b.pass(cmd, daemon, cmd.OutOrStdout(), size, text, newInput(b.as.lines(text)), nil)
}

// unpacked returns the text of a source.
func (b *batchCommand) unpacked(source io.Reader) *unpacked {
	return &unpacked{source: source, taken: b.as != "", binary: b.as == asScrapy}
}

// pass passes the lines of in to the daemon, and its answers to out. After each batch that is
// answered it calls done with its last line, if that is not nil.
func (b *batchCommand) pass(cmd *cobra.Command, daemon *client.Client, out io.Writer, size int64, text *unpacked, in *input, done func(line int64) error) error {
	defer in.close()
	errOut := cmd.ErrOrStderr()
	start := time.Now()
	typ := b.conn.filter(cmd)
	t := &transfer{
		judge:     b.judge(daemon, typ),
		out:       out,
		remembers: b.remembers,
		skip:      b.skipInvalid,
		timeout:   b.conn.Timeout,
		patience:  b.conn.Patience,
		input:     text,
		done:      done,
	}
	if !b.quiet {
		t.notice = errOut
	}
	if b.all {
		t.skippedText = "invalid\t\n"
	}
	// On a terminal the items themselves show the progress.
	if line := terminal.NewProgress(errOut, !terminal.Is(out) && !b.quiet && b.summary.value != summaryJSON); line != nil {
		t.progress = &progress{line, size, start}
	}
	if text != nil && !b.input.ndjson() && b.as == "" && !b.quiet && b.summary.value != summaryJSON {
		t.warn = errOut
	}
	err := t.run(cmd.Context(), in)
	t.progress.clear()
	if summed := b.summarize(errOut, typ, t.total, time.Since(start), err); err == nil {
		err = summed
	}
	if err == nil && b.summary.value != summaryJSON {
		warnOverCapacity(cmd.Context(), errOut, daemon, typ)
	}
	return err
}

// summarize writes what a run has done, in the requested form.
func (b *batchCommand) summarize(w io.Writer, typ string, done tally, elapsed time.Duration, failed error) error {
	switch b.summary.value {
	case summaryJSON:
		return done.writeJSON(w, typ, elapsed, failed)
	case summaryText:
		done.writeSkipped(w)
		if failed == nil {
			fmt.Fprintln(w, done.summary(elapsed, b.remembers))
		}
	}
	return nil
}

// opened is an input and its closer, nil for the standard input.
type opened struct {
	io.Reader
	close func() error
}

func (o opened) Close() error { return o.close() }

// openInput opens the file called name, "-" for stdin, and returns its size, 0 if it has none.
func openInput(stdin io.Reader, name string) (opened, int64, error) {
	if name == "-" {
		f, ok := stdin.(*os.File)
		if !ok {
			return opened{stdin, func() error { return nil }}, 0, nil
		}
		return opened{f, func() error { return nil }}, sizeOf(f), nil
	}
	f, err := os.Open(name)
	if errors.Is(err, os.ErrNotExist) && filterName.MatchString(name) {
		return opened{}, 0, fmt.Errorf("%w%sif %s is the filter: --filter %s, and the file after it", err, command.HintMark, name, name)
	}
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
