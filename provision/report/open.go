package report

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"

	"golang.org/x/term"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// Options choose a display.
type Options struct {
	Stdout, Stderr *os.File
	// JSON writes events as JSON lines to Stdout, and the text for people to Stderr.
	// URIFILTER_OUTPUT=json does the same.
	JSON    bool
	Verbose bool
	Getenv  func(string) string
}

// Display shows the events of a run where people, and programs, want them.
type Display struct {
	terminal *Terminal
	json     *JSON // nil: nobody asked for it
}

// Open chooses a display by the options, the environment (URIFILTER_OUTPUT, NO_COLOR,
// TERM) and what the outputs are.
func Open(o Options) (*Display, error) {
	d := &Display{}
	switch format := o.Getenv("URIFILTER_OUTPUT"); format {
	case "", "text":
	case "json":
		o.JSON = true
	default:
		return nil, fmt.Errorf("URIFILTER_OUTPUT %q: json or text", format)
	}
	people := o.Stdout
	if o.JSON {
		people = o.Stderr
		d.json = NewJSON(terminal.Protect(o.Stdout), o.Verbose)
	}
	t := TerminalOptions{Verbose: o.Verbose}
	if fd := int(people.Fd()); term.IsTerminal(fd) && !dumb(o.Getenv("TERM")) && ansi(people) {
		t.Live = true
		t.Color = o.Getenv("NO_COLOR") == ""
		t.Size = func() (int, int) {
			columns, rows, err := term.GetSize(fd)
			if err != nil || columns <= 0 {
				return 80, 24
			}
			return columns, rows
		}
	}
	d.terminal = NewTerminal(people, t)
	return d, nil
}

// Emit implements Sink.
func (d *Display) Emit(e Event) {
	if d.json != nil {
		d.json.Emit(e)
	}
	d.terminal.Emit(e)
}

// Pause keeps the terminal quiet while somebody is asked for something.
func (d *Display) Pause() (resume func()) { return d.terminal.Pause() }

// Close ends the display.
func (d *Display) Close() { d.terminal.Close() }

// dumb reports whether a terminal shows escape sequences as they are. Windows names no terminal.
func dumb(terminal string) bool {
	return terminal == "dumb" || terminal == "" && runtime.GOOS != "windows"
}

// JSON writes one event per line. It leaves out Progress and the output of commands
// unless it is verbose.
type JSON struct {
	verbose bool

	mu      sync.Mutex
	encoder *json.Encoder
	broken  bool // nobody reads any more
}

// NewJSON writes to out.
func NewJSON(out io.Writer, verbose bool) *JSON {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return &JSON{verbose: verbose, encoder: encoder}
}

// Emit implements Sink.
func (j *JSON) Emit(e Event) {
	if !j.verbose && (e.Kind == Progress || e.Kind == Output) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	// A reader that has gone is no reason to leave a host half done.
	if !j.broken {
		j.broken = j.encoder.Encode(e) != nil
	}
}
