package crawl

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

const (
	drawEvery = 200 * time.Millisecond // on a terminal
	tellEvery = time.Second            // as JSON
)

// event is a line of --json.
type event struct {
	Event string `json:"event"` // progress, or summary, which is the last
	Out   string `json:"out"`
	Done  bool   `json:"done"` // the crawl is complete
	crawl.Progress
}

func tell(w io.Writer, e event) error { return json.NewEncoder(w).Encode(e) }

// watch runs a crawl, and shows its progress, and at the end its outcome.
func (o *options) watch(cmd *cobra.Command, c *crawl.Crawl) error {
	screen := cmd.ErrOrStderr()
	drawn := terminal.Is(screen)
	every := drawEvery
	if o.asJSON {
		every = tellEvery
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Run(cmd.Context()) }()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			switch {
			case o.asJSON:
				_ = tell(cmd.OutOrStdout(), event{"progress", o.out, false, c.Progress()})
			case drawn:
				_ = terminal.Redraw(screen, cut(line(c.Progress()), terminal.Width(screen)))
			}
		case err := <-ended:
			p := c.Progress()
			switch {
			case o.asJSON:
				return cmp.Or(err, tell(cmd.OutOrStdout(), event{"summary", o.out, err == nil, p}))
			case drawn:
				_ = terminal.Redraw(screen, "")
			}
			summary(cmd.OutOrStdout(), o.out, p, err == nil)
			return err
		}
	}
}

// cut shortens a line to fit the width, so that it is not wrapped.
func cut(text string, width int) string {
	if runes := []rune(text); len(runes) >= width {
		return string(runes[:width-1])
	}
	return text
}

// line shows progress in a line for people.
func line(p crawl.Progress) string {
	text := fmt.Sprintf("%s/%s pages  %.1f/s  queue %s", human.Count(p.Stored), human.Count(p.MaxPages), p.Rate, human.Count(p.Queued))
	if p.Failed > 0 {
		text += fmt.Sprintf("  failed %s (%s)", human.Count(p.Failed), most(p.Reasons, 3))
	}
	if p.Retried > 0 {
		text += fmt.Sprintf("  retried %s", human.Count(p.Retried))
	}
	for i, slow := range p.Slowest {
		if i == 0 {
			text += "  slowest"
		}
		text += fmt.Sprintf(" %s %.1fs", slow.Host, slow.Seconds)
	}
	return text
}

// most names the most frequent entries.
func most(counts map[string]int64, n int) string {
	type count struct {
		name string
		n    int64
	}
	var all []count
	for name, times := range counts {
		all = append(all, count{name, times})
	}
	slices.SortFunc(all, func(a, b count) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.name, b.name)) })
	var words []string
	for i, one := range all {
		if i == n {
			words = append(words, "...")
			break
		}
		words = append(words, one.name+" "+human.Count(one.n))
	}
	return strings.Join(words, ", ")
}

// summary shows people the outcome of a crawl.
func summary(w io.Writer, dir string, p crawl.Progress, done bool) {
	spent := time.Duration(p.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
	what := ""
	switch {
	case !done:
		what = fmt.Sprintf(" of %s, stopped", human.Count(p.MaxPages))
	case p.Stored < p.MaxPages:
		what = fmt.Sprintf(", all that were found; %s were asked for", human.Count(p.MaxPages))
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(w, format+"\n", args...) }
	say("%s pages%s", human.Count(p.Stored), what)
	say("  folder        %s (%s in %s, %.1f pages/s)", dir, human.Bytes(p.Bytes), human.Duration(spent), float64(p.Stored)/max(p.Seconds, 0.001))
	say("  links         %s; %s URIs are in the queue", human.Count(p.Edges), human.Count(p.Queued))
	for _, one := range []struct {
		name, text string
		n          int64
	}{
		{"failed", most(p.Reasons, 8) + " (in " + crawl.FailedFile + "; --resume --retry-failed tries them again)", p.Failed},
		{"retried", "attempts that failed and were made again", p.Retried},
		{"redirected", "URIs that lead to another", p.Redirected},
		{"duplicates", "pages with the content of another", p.Duplicates},
		{"elsewhere", "URIs that the filter had seen", p.Elsewhere},
		{"wrongly seen", "URIs that the crawl's filter took for seen; they were queued", p.FalsePositives},
	} {
		if one.n > 0 {
			say("  %-12s  %s: %s", one.name, human.Count(one.n), one.text)
		}
	}
	if p.Away > 0 {
		say("  away          %d hosts could not be had; their URIs are in the queue: uridownloader crawl --resume --out %s", p.Away, quoted(dir))
	}
	if len(p.Skipped) > 0 {
		say("  not followed  %s", most(p.Skipped, 8))
	}
}
