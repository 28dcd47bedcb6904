package filter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// maxSkippedLines is how many of the skipped lines a run describes; it counts all.
const maxSkippedLines = 20

// tally counts the work that is done.
type tally struct {
	read, fresh, skipped int64 // items; skipped ones are in read, too
	bytes                int64 // of the input
	line                 int64 // the last that is done
	cut                  bool  // the reader of the output left before the end
	invalid              []skippedLine
}

// skippedLine is a line that is no item.
type skippedLine struct {
	Line      int64  `json:"line"` // from 1
	ErrorCode string `json:"error_code"`
	Detail    string `json:"detail"`
}

// add adds the answer to a batch.
func (t *tally) add(b batch, v verdicts) {
	t.read += v.read
	t.fresh += v.fresh
	t.skipped += v.skipped.Invalid
	t.bytes += int64(len(b.data))
	t.line = b.last()
	for _, item := range v.skipped.Items {
		if len(t.invalid) < maxSkippedLines {
			t.invalid = append(t.invalid, skippedLine{b.line(item.Index), item.ErrorCode, item.Detail})
		}
	}
}

// skipLine adds a line of n bytes that was not sent to the daemon.
func (t *tally) skipLine(line, n int64) {
	t.read++
	t.skipped++
	t.bytes += n
	t.line = line
	if len(t.invalid) < maxSkippedLines {
		t.invalid = append(t.invalid, skippedLine{line, items.ItemTooLarge, longerThan})
	}
}

func (t tally) seen() int64 { return t.read - t.fresh - t.skipped }

// summary is the last line of filter and check.
func (t tally) summary(elapsed time.Duration, remembers bool) string {
	others := "duplicates"
	if !remembers {
		others = "seen"
	}
	text := fmt.Sprintf("%s read, %s new, %s %s", human.Count(t.read), human.Count(t.fresh), human.Count(t.seen()), others)
	if t.skipped > 0 {
		text += fmt.Sprintf(", %s skipped", human.Count(t.skipped))
	}
	text += fmt.Sprintf(" in %.1fs (%s)", elapsed.Seconds(), rate(t.read, elapsed))
	if t.cut {
		text += "; then the output was closed"
	}
	return text
}

// writeSkipped names the first skipped lines, and counts the others.
func (t tally) writeSkipped(w io.Writer) {
	for _, s := range t.invalid {
		fmt.Fprintf(w, "line %s: skipped: %s: %s\n", human.Count(s.Line), s.ErrorCode, s.Detail)
	}
	if more := t.skipped - int64(len(t.invalid)); more > 0 {
		fmt.Fprintf(w, "%s more lines were skipped\n", human.Count(more))
	}
}

// jsonSummary is what --summary json writes, in one line.
type jsonSummary struct {
	Filter     string  `json:"filter"`
	Read       int64   `json:"read"` // items; new, duplicates and invalid together
	New        int64   `json:"new"`
	Duplicates int64   `json:"duplicates"` // of check: seen
	Invalid    int64   `json:"invalid"`    // skipped
	Lines      int64   `json:"lines"`      // of the input, that are done
	Seconds    float64 `json:"seconds"`

	InvalidItems []skippedLine `json:"invalid_items,omitempty"` // the first 20
	OutputClosed bool          `json:"output_closed,omitempty"` // before the end of the input
	Error        string        `json:"error,omitempty"`         // why the run failed
}

func (t tally) writeJSON(w io.Writer, filter string, elapsed time.Duration, failed error) error {
	s := jsonSummary{
		Filter: filter, Read: t.read, New: t.fresh, Duplicates: t.seen(), Invalid: t.skipped, Lines: t.line,
		Seconds: elapsed.Round(time.Microsecond).Seconds(), InvalidItems: t.invalid, OutputClosed: t.cut,
	}
	if failed != nil {
		s.Error, _, _ = strings.Cut(failed.Error(), command.HintMark)
	}
	line, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "%s\n", line)
	return err
}

// choice is a flag's value: one of a set of words.
type choice struct {
	value string
	of    []string
}

func (c *choice) String() string { return c.value }
func (c *choice) Type() string   { return strings.Join(c.of, "|") }

func (c *choice) Set(text string) error {
	if !slices.Contains(c.of, text) {
		return errors.New("want " + strings.Join(c.of, " or "))
	}
	c.value = text
	return nil
}

// complete completes the value in shells.
func (c *choice) complete() cobra.CompletionFunc {
	return cobra.FixedCompletions(c.of, cobra.ShellCompDirectiveNoFileComp)
}

// callOptions returns the options of one call, which include where it reports skipped items.
func (b *batchCommand) callOptions(skipped *client.InvalidItems) []client.CallOption {
	var options []client.CallOption
	if b.remembers {
		options = b.expire.Options()
	}
	if b.skipInvalid {
		options = append(options, client.SkipInvalid(skipped))
	}
	return options
}

// capacityWait bounds the look at the filter after the work of a run is done.
const capacityWait = 5 * time.Second

// warnOverCapacity warns, after a run, of a filter that holds more than it was made for: it calls
// new items seen, and the answers do not show which. If the daemon does not say (a token may not
// look), the run has not failed.
func warnOverCapacity(ctx context.Context, w io.Writer, daemon *client.Client, typ string) {
	ctx, cancel := context.WithTimeout(ctx, capacityWait)
	defer cancel()
	f, err := daemon.GetFilter(ctx, typ)
	if err != nil || f.Capacity == 0 || len(f.Layers) > 0 || f.ItemsEstimate <= f.Capacity || f.FPREstimate <= f.ErrorRate {
		return
	}
	fmt.Fprintf(w, "urifilter: warning: filter %s holds about %s items and was made for %s: of new items %s are called seen now, %s was asked for"+
		"%smake a larger one, or one that grows (`urifilter filters create NAME --on-full grow`), and ask that\n",
		f.Name, human.Count(int64(f.ItemsEstimate)), human.Count(int64(f.Capacity)), hundredths(f.FPREstimate), hundredths(f.ErrorRate), command.HintMark)
}

func hundredths(share float64) string { return fmt.Sprintf("%.3g %%", 100*share) }
