package filter

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// verdicts is the answer to one batch: the text to print, and the counts.
type verdicts struct {
	text        []byte
	read, fresh int64
	skipped     client.InvalidItems // lines of the batch
}

// transfer passes lines from an input to a daemon and prints the answers.
//
// One batch is under way at a time, and its answer is printed before the next is sent: of
// two equal lines the first is the new one, and whatever happens, at most one batch is
// remembered but not printed.
type transfer struct {
	judge     func(context.Context, batch) (verdicts, error)
	out       io.Writer
	remembers bool // whether the daemon remembers what it judges
	skip      bool // lines that are no items
	// skippedText is printed for a line that is too long to be shown.
	skippedText string
	timeout     time.Duration // of one call
	patience    time.Duration // with a daemon that does not accept a batch
	notice      io.Writer     // gets a note when a daemon is waited for; may be nil
	warn        io.Writer     // is told of text that is hardly a list of items; may be nil
	progress    *progress
	input       *unpacked              // nil: plain lines
	done        func(line int64) error // is told the last line of what is done; nil: nobody asks
	total       tally
}

// run works until the input ends. When the reader of the output has left, further lines are not
// sent: they would be remembered, but not printed. If the daemon remembers, this is an error,
// since the reader may have missed some of the output.
func (t *transfer) run(ctx context.Context, in *input) error {
	for {
		b, err := in.next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if long, ok := errors.AsType[*longLineError](err); ok && t.skip {
			if err := t.skipLine(ctx, in, long.line); err != nil {
				return t.halted(err)
			}
			continue
		}
		if err != nil {
			return t.halted(err)
		}
		if t.warn != nil && t.input.odd != nil {
			warnOdd(t.warn, t.input.odd)
		}
		t.warn = nil
		if readerLeft(t.out) {
			return t.cut(b.first - 1)
		}
		v, err := t.send(ctx, b)
		if err != nil {
			return t.broken(b, err)
		}
		if _, err := t.out.Write(v.text); command.OutputClosed(err) {
			return t.cut(b.last())
		} else if err != nil {
			return t.broken(b, fmt.Errorf("output: %w", err))
		}
		t.total.add(b, v)
		if t.done != nil {
			if err := t.done(b.last()); err != nil {
				return t.halted(err)
			}
		}
		if t.input != nil && t.input.packed.Load() != nil {
			t.progress.unsized() // size is of the packed file, bytes are unpacked
		}
		t.progress.update(t.total)
	}
}

// skipLine skips a line that is too long.
func (t *transfer) skipLine(ctx context.Context, in *input, line int64) error {
	n, err := in.skipLine(ctx)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(t.out, t.skippedText); err != nil && !command.OutputClosed(err) {
		return fmt.Errorf("output: %w", err)
	}
	t.total.skipLine(line, n)
	t.progress.update(t.total)
	return nil
}

// cut ends a run whose reader has left; lines up to last were sent to the daemon.
func (t *transfer) cut(last int64) error {
	t.total.cut = true
	switch {
	case !t.remembers:
		return nil
	case last == 0:
		return errors.New("output: closed by its reader\nno line is remembered")
	}
	return fmt.Errorf("output: closed by its reader\nlines before %d are remembered, whether their new items were read or not (%s gives the rest)%s"+
		"`urifilter check` prints what is new and remembers nothing", last+1, t.input.rest(last+1), command.HintMark)
}

// halted adds to an error where the input stopped between two batches.
func (t *transfer) halted(err error) error {
	return fmt.Errorf("%w\n%s", err, t.sureBefore(t.total.line+1))
}

// atLine names the line of an item that the daemon found at fault in a batch.
func atLine(b batch, err error) error {
	var answer *client.Error
	if !errors.As(err, &answer) || answer.Index == nil {
		return err
	}
	line := human.Count(b.line(*answer.Index))
	if err == error(answer) { // and not one that says it is unknown
		plain := *answer
		plain.Index = nil // it counts from the beginning of the batch
		err = &plain
	}
	return fmt.Errorf("line %s: %w", line, err)
}

// broken adds to an error what is certain about the failed batch.
func (t *transfer) broken(b batch, err error) error {
	err = atLine(b, err)
	switch certain := nothingRemembered(err); {
	case b.first == 1 && (certain || !t.remembers):
		return err // nothing has happened
	case !t.remembers:
		return fmt.Errorf("%w\n%s", err, t.sureBefore(b.first))
	case certain:
		return fmt.Errorf("%w\n%s; nothing from line %d on is remembered", err, t.sureBefore(b.first), b.first)
	default:
		return fmt.Errorf("%w\n%s; %s may be remembered though they were not all printed", err, t.sureBefore(b.first), lines(b.first, b.last()))
	}
}

func (t *transfer) sureBefore(line int64) string {
	if line == 1 {
		return "no line is done"
	}
	return fmt.Sprintf("lines before %d are done (%s gives the rest)", line, t.input.rest(line))
}

func lines(first, last int64) string {
	if first == last {
		return fmt.Sprintf("line %d", first)
	}
	return fmt.Sprintf("lines %d to %d", first, last)
}

// nothingRemembered reports whether the daemon has certainly remembered nothing of a batch that
// failed with err: it refused the batch, or was never reached. The client's own statement about
// its calls applies here too.
func nothingRemembered(err error) bool {
	told := errors.As(err, new(*client.Error)) || errors.As(err, new(*client.ConnectionError))
	return told && !client.InDoubt(err)
}

// filterBatch remembers a batch; the text lists the new items.
func (b *batchCommand) filterBatch(c *client.Client, typ string) func(context.Context, batch) (verdicts, error) {
	call := c.FilterLines
	if b.input.ndjson() {
		call = c.FilterNDJSON
	}
	return func(ctx context.Context, part batch) (v verdicts, err error) {
		var out bytes.Buffer
		v.read, v.fresh, err = call(ctx, typ, bytes.NewReader(part.data), &out, b.callOptions(&v.skipped)...)
		v.text = out.Bytes()
		return v, err
	}
}
