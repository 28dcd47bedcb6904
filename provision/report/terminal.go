package report

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// TerminalOptions say how a Terminal shows events.
type TerminalOptions struct {
	// Verbose shows unchanged steps, diffs of what was changed, and the output of commands.
	Verbose bool
	// Live keeps a line for each busy host at the bottom, with the time that its step has
	// taken so far. It needs a terminal that knows ANSI sequences. Otherwise lines are
	// only added, without any control character, and a step that takes long is reported
	// every 30 s.
	Live  bool
	Color bool
	// Size returns that of the terminal, in columns and rows; nil, or 0 columns: no terminal.
	Size func() (columns, rows int)
	// Now is the clock; nil: time.Now.
	Now func() time.Time
}

const (
	redraw  = 100 * time.Millisecond
	longRun = 30 * time.Second
)

// Terminal shows events to people. It is safe for concurrent use.
type Terminal struct {
	o       TerminalOptions
	stopped chan struct{}
	ticking sync.WaitGroup
	close   sync.Once

	paused sync.Mutex // held while something else uses the terminal

	mu     sync.Mutex
	out    io.Writer
	style  style
	hosts  []string
	target string
	busy   []*row // hosts at work, in the order of the run
	same   map[string]int
	drawn  int // lines of the live part
}

// NewTerminal shows events on out until Close.
func NewTerminal(out io.Writer, o TerminalOptions) *Terminal {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Size == nil {
		o.Size = func() (int, int) { return 0, 0 }
	}
	t := &Terminal{o: o, out: out, style: style{color: o.Color}, same: map[string]int{}, stopped: make(chan struct{})}
	t.style.fit(nil, t.columns())
	every := longRun
	if o.Live {
		every = redraw
	}
	t.ticking.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-t.stopped:
				return
			case <-tick.C:
				t.tick()
			}
		}
	})
	return t
}

func (t *Terminal) columns() int {
	columns, _ := t.o.Size()
	return columns
}

// Close removes the live part.
func (t *Terminal) Close() {
	t.close.Do(func() {
		close(t.stopped)
		t.ticking.Wait()
		t.mu.Lock()
		defer t.mu.Unlock()
		t.busy = nil
		t.print("")
	})
}

// Pause removes the live part and keeps quiet until resume is called, so that somebody can
// be asked for something. Events wait.
func (t *Terminal) Pause() (resume func()) {
	t.paused.Lock()
	t.mu.Lock()
	busy := t.busy
	t.busy = nil
	t.print("")
	t.busy = busy
	t.mu.Unlock()
	return sync.OnceFunc(t.paused.Unlock)
}

func (t *Terminal) tick() {
	if !t.paused.TryLock() {
		return
	}
	defer t.paused.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.o.Live {
		t.print("")
		return
	}
	var text strings.Builder
	for _, r := range t.busy {
		if now := t.o.Now(); now.Sub(r.told) >= longRun {
			r.told = now
			text.WriteString(t.style.line(r.host, r.step, "running", joined(took(now.Sub(r.began)), r.progress)) + "\n")
		}
	}
	t.print(text.String())
}

// Emit implements Sink.
func (t *Terminal) Emit(e Event) {
	t.paused.Lock()
	defer t.paused.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	before := len(t.busy)
	if text := t.text(e); text != "" || before != len(t.busy) {
		t.print(text)
	}
}

// text handles an event, and returns what it adds above the live part.
func (t *Terminal) text(e Event) string {
	switch e.Kind {
	case RunBegan:
		t.hosts, t.target = e.Hosts, e.Text
		t.style.fit(e.Hosts, t.columns())
		what := e.Text
		if e.Plan {
			what += " (nothing is changed)"
		}
		return t.style.ansi("1", fmt.Sprintf("%s: %s", what, Count(len(e.Hosts), "host"))) + "\n"
	case PhaseBegan:
		return t.flush("") + t.style.ansi("1", heading(e)) + "\n"
	case StepBegan:
		t.begin(e)
	case Progress:
		if r := t.row(e.Host); r != nil {
			r.progress = share(e)
		}
	case Said, Warned:
		return t.said(e)
	case Output:
		return t.output(e)
	case StepEnded:
		return t.result(e)
	case HostDone:
		t.idle(e.Host)
		return t.flush(e.Host)
	case RunEnded:
		t.busy = nil
		return t.flush("") + t.style.summary(t.target, *e.Summary)
	}
	return ""
}

func heading(e Event) string {
	text := e.Phase
	if e.Text != "" {
		text += ", " + e.Text
	}
	if len(e.Hosts) <= 4 {
		return text + ": " + strings.Join(e.Hosts, " ")
	}
	return text + ": " + Count(len(e.Hosts), "host")
}

func share(e Event) string {
	if e.Size <= 0 {
		return e.Text
	}
	return fmt.Sprintf("%s %d %%", oneLine(e.Text), e.Sent*100/e.Size)
}

func (t *Terminal) said(e Event) string {
	text := oneLine(e.Text)
	status := Status("note")
	if e.Kind == Warned {
		status = "warning"
	}
	if e.Host == "" {
		return string(status) + ": " + text + "\n"
	}
	return t.flush(e.Host) + t.style.line(e.Host, e.Step, status, text) + "\n"
}

func (t *Terminal) output(e Event) string {
	if !t.o.Verbose {
		return ""
	}
	text := t.style.prefix(e.Host) + t.style.ansi("2", "$ "+oneLine(e.Command))
	if e.Code != 0 {
		text += fmt.Sprintf(" (exit code %d)", e.Code)
	}
	return text + "\n" + t.style.prefixed(e.Host, e.Text)
}

// result shows the result of a step. Unchanged steps are counted and shown together, those
// before the first phase not at all. Hosts on which nothing was begun are in the
// summary.
func (t *Terminal) result(e Event) string {
	t.idle(e.Host)
	if e.Step == "" && !t.o.Verbose && (e.Status == NotStarted || e.Status == Skipped) {
		return ""
	}
	if e.Status == OK && !t.o.Verbose {
		if e.Phase != "" {
			t.same[e.Host]++
		}
		return ""
	}
	rest := oneLine(e.Detail)
	if e.Error != "" {
		rest = oneLine(e.Error)
	}
	if e.Seconds >= 0.05 {
		rest = joined(rest, "("+took(seconds(e.Seconds))+")")
	}
	text := t.flush(e.Host) + t.style.line(e.Host, e.Step, e.Status, rest) + "\n"
	if e.Diff != "" && (t.o.Verbose || e.Status == WouldChange) {
		text += t.style.diff(e.Diff)
	}
	return text
}

// flush says how many steps of the host, or of all ("") hosts, found nothing to change.
func (t *Terminal) flush(host string) string {
	var b strings.Builder
	for _, h := range t.hosts {
		if n := t.same[h]; n > 0 && (host == "" || host == h) {
			b.WriteString(t.style.line(h, Count(n, "step"), OK, "") + "\n")
			delete(t.same, h)
		}
	}
	return b.String()
}
