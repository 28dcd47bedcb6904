package bench

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/load"
	"github.com/cr-clawer/urifilter/daemon/internal/lab/plot"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
)

// loadReport is what bench load prints.
type loadReport struct {
	Server        string        `json:"server"`
	Filter        string        `json:"filter"`
	Kept          bool          `json:"filter_kept"` // with the items of the run
	Protocol      load.Protocol `json:"protocol"`
	Connections   int           `json:"connections"`
	Batch         int           `json:"batch"`
	Rate          float64       `json:"rate,omitempty"` // items a second that were due
	WarmUpSeconds float64       `json:"warm_up_seconds"`
	Input         string        `json:"input,omitempty"`
	Seed          uint64        `json:"seed,omitempty"`
	*load.Result
}

func progressLine(p load.Progress) string {
	text := fmt.Sprintf("%.1f of %s", p.Elapsed.Seconds(), human.Duration(p.Of))
	if p.WarmUp {
		text = "warm-up"
	}
	text += fmt.Sprintf(", %s items/s", human.Count(int64(p.ItemsPerSec)))
	if p.P50 > 0 {
		text += fmt.Sprintf(", p50 %s ms, p99 %s ms", inMillis(millis(p.P50)), inMillis(millis(p.P99)))
	}
	if p.Errors > 0 {
		text += fmt.Sprintf(", %s batches failed", human.Count(p.Errors))
	}
	return text
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inMillis writes milliseconds with about three digits.
func inMillis(ms float64) string {
	switch {
	case ms < 10:
		return strconv.FormatFloat(ms, 'f', 2, 64)
	case ms < 100:
		return strconv.FormatFloat(ms, 'f', 1, 64)
	}
	return human.Count(int64(ms + 0.5))
}

// write prints the tables.
func (r loadReport) write(w io.Writer) error {
	loop := "closed loop"
	if r.Rate > 0 {
		loop = fmt.Sprintf("open loop, %s items/s due", human.Count(int64(r.Rate)))
	}
	fmt.Fprintf(w, "%s: %s, %s connections, batches of %s as %s, %.1f s after %s s of warm-up\n\n", r.Server, loop,
		human.Count(int64(r.Connections)), human.Count(int64(r.Batch)), r.Protocol, r.Seconds, short(r.WarmUpSeconds))
	rows := [][]string{
		{"items/s", human.Count(int64(r.ItemsPerSec))},
		{"batches/s", human.Count(int64(r.BatchesPerSec + 0.5)), fmt.Sprintf("%s answered", human.Count(r.Batches))},
		{"duplicates", human.Percent(r.DuplicateShare), r.sentShare()},
		{"sent", r.bytesPerSec(r.BytesSent) + "/s", human.Bytes(r.BytesSent)},
		{"received", r.bytesPerSec(r.BytesReceived) + "/s", human.Bytes(r.BytesReceived)},
	}
	if g := r.Generator; g != nil {
		rows = append(rows, []string{"generator", fmt.Sprintf("%.2f cores", g.Cores), fmt.Sprintf("of %d", g.Of)})
	}
	if r.Unsent > 0 {
		rows = append(rows, []string{"not sent", human.Count(r.Unsent), "batches that were due"})
	}
	if len(r.Errors) == 0 {
		rows = append(rows, []string{"failed", "0"})
	}
	for _, e := range r.Errors {
		text := e.First
		if !strings.HasPrefix(text, e.Code) {
			text = e.Code + ": " + text
		}
		rows = append(rows, []string{"failed", human.Count(e.Batches), text})
	}
	if err := human.Table(w, rows, map[int]bool{0: true, 2: true}); err != nil {
		return err
	}
	head := []string{"latency of a batch, ms", "p50", "p90", "p99", "p99.9", "max"}
	times := [][]string{head}
	for _, l := range r.latencies() {
		times = append(times, []string{l.name, inMillis(l.P50), inMillis(l.P90), inMillis(l.P99), inMillis(l.P999), inMillis(l.Max)})
	}
	if d := r.Delay; d != nil {
		times = append(times, []string{"of it the generator's own delay", inMillis(d.P50), inMillis(d.P90), inMillis(d.P99), inMillis(d.P999), inMillis(d.Max)})
	}
	fmt.Fprintln(w)
	if err := human.Table(w, times, map[int]bool{0: true}); err != nil {
		return err
	}
	for _, text := range r.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", text)
	}
	if r.Kept {
		fmt.Fprintf(w, "\nthe filter %s keeps the items\n", r.Filter)
	}
	return nil
}

func (r loadReport) sentShare() string {
	switch {
	case r.Input != "":
		return "of the input's items"
	case r.SentDuplicateShare == nil:
		return ""
	}
	return human.Percent(*r.SentDuplicateShare) + " were sent"
}

func (r loadReport) bytesPerSec(n int64) string { return human.Bytes(int64(float64(n) / r.Seconds)) }

// namedLatency is a latency with the name of its starting point.
type namedLatency struct {
	name string
	*load.Latency
}

// latencies returns the latencies of the loop, the most honest first.
func (r loadReport) latencies() []namedLatency {
	if r.Sent != nil {
		return []namedLatency{{"from when it was due", &r.Latency}, {"from when it was sent", r.Sent}}
	}
	return []namedLatency{{"as measured", &r.Latency}, {"corrected", r.Corrected}}
}

func (r loadReport) chart() plot.Chart {
	c := plot.Chart{
		Title: "Latency of a batch by percentile",
		Notes: fmt.Sprintf("%s items/s, %d connections, batches of %s, %s", human.Count(int64(r.ItemsPerSec)), r.Connections, human.Count(int64(r.Batch)), r.Loop+" loop"),
		X:     plot.Axis{Label: "percentile of the batches", Log: true, Ticks: []float64{}, Names: []string{}},
		Y:     plot.Axis{Label: "milliseconds", Log: true},
	}
	for _, l := range r.latencies() {
		s := plot.Series{Name: l.name, Line: true}
		for _, p := range l.Curve {
			s.Points = append(s.Points, plot.Point{X: p.OneIn, Y: p.Value})
		}
		c.Series = append(c.Series, s)
	}
	rarest := 0.0
	for _, s := range c.Series {
		for _, p := range s.Points {
			rarest = max(rarest, p.X)
		}
	}
	for _, tick := range []struct {
		oneIn float64
		name  string
	}{{2, "p50"}, {10, "p90"}, {100, "p99"}, {1000, "p99.9"}, {10_000, "p99.99"}, {100_000, "p99.999"}, {1_000_000, "p99.9999"}} {
		if tick.oneIn <= rarest {
			c.X.Ticks, c.X.Names = append(c.X.Ticks, tick.oneIn), append(c.X.Names, tick.name)
		}
	}
	return c
}

const keepsItems = "with --filter NAME the run asks a filter that is there, which keeps the items"

// explainOwn says what to do if no filter could be made for the run.
func explainOwn(err error) error {
	if err == nil {
		return nil
	}
	if answer, ok := errors.AsType[*client.Error](err); ok && answer.Status == http.StatusForbidden {
		return fmt.Errorf("a filter for this run: %w%sgive a token of the scope admin; %s", err, command.HintMark, keepsItems)
	}
	return fmt.Errorf("a filter for this run: %w", err)
}

// explainLoad says what to do if the first batch of a protocol did not get through.
func explainLoad(err error, protocol load.Protocol) error {
	var prime *load.PrimeError
	if !errors.As(err, &prime) {
		return err
	}
	hint := map[string]string{
		items.TooManyItems:   "give a smaller --batch, or the daemon a larger limits.items",
		problem.BodyTooLarge: "give a smaller --batch, or the daemon a larger limits.body_bytes",
	}[prime.Code]
	if protocol == load.RESP && prime.Code == "connection_refused" {
		hint = "set resp.listen of the daemon, and name that port with --resp or URIFILTER_RESP"
	}
	if hint == "" {
		return err
	}
	return fmt.Errorf("%w%s%s", err, command.HintMark, hint)
}
