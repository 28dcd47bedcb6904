package child

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
)

// run is one attempt. Its methods are for the goroutine of do, except stop.
type run struct {
	start wire.Start
	send  func(wire.Up)
	pages chan *wire.Page

	thread  *starlark.Thread
	base    string // the base of relative links: the page that came last
	doc     parsed
	records int
	emitted int
	links   int
	lines   int

	mu      sync.Mutex // guards the fields below
	stopped chan struct{}
	why     string
}

func newRun(start wire.Start, send func(wire.Up)) *run {
	r := &run{start: start, send: send, pages: make(chan *wire.Page), stopped: make(chan struct{})}
	switch {
	case start.Page != nil:
		r.base = start.Page.URL
	case r.downloads():
		r.base = start.URI
	}
	r.thread = &starlark.Thread{
		Name:  Command,
		Print: func(_ *starlark.Thread, text string) { r.say(text) },
		Load: func(*starlark.Thread, string) (starlark.StringDict, error) {
			return nil, errors.New("the code of a job is one file")
		},
		OnMaxSteps: r.look,
	}
	r.thread.SetMaxExecutionSteps(lookEvery)
	return r
}

// lookEvery is the number of steps between two checks whether the code may continue.
const lookEvery = 1000

func (r *run) look(thread *starlark.Thread) {
	steps := thread.ExecutionSteps()
	switch {
	case steps >= script.MaxSteps:
		r.stop(fmt.Sprintf("took more than %d steps", script.MaxSteps))
	case thread.CallStackDepth() > script.MaxDepth:
		r.stop(fmt.Sprintf("has more than %d calls in calls", script.MaxDepth))
	}
	thread.SetMaxExecutionSteps(steps + lookEvery)
}

// stop ends the code where it is. It may be called by any goroutine; the first reason counts.
func (r *run) stop(why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.why == "" {
		r.why = why
		r.thread.Cancel(why)
		close(r.stopped)
	}
}

func (r *run) reason() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.why
}

// execute runs the code to its end.
func (r *run) execute() *wire.End {
	names := r.names()
	_, program, err := starlark.SourceProgramOptions(script.Options(), r.start.File, r.start.Text, names.Has)
	if err != nil {
		return &wire.End{Fault: err.Error(), Permanent: true}
	}
	globals, err := program.Init(r.thread, names)
	if err != nil {
		return r.fault(err)
	}
	entry, ok := globals[r.start.Function].(starlark.Callable)
	if !ok {
		return &wire.End{Fault: r.start.File + ": has no function " + r.start.Function, Permanent: true}
	}
	result, err := starlark.Call(r.thread, entry, starlark.Tuple{r.argument()}, nil)
	if err != nil {
		return r.fault(err)
	}
	wants := "None"
	if r.downloads() {
		wants = "a page that fetch has returned, or None"
	}
	switch result := result.(type) {
	case starlark.NoneType:
		return &wire.End{}
	case *page:
		if r.downloads() {
			return &wire.End{Page: result.ID}
		}
	}
	return &wire.End{Fault: fmt.Sprintf("%s: %s returned a %s: want %s", r.start.File, r.start.Function, result.Type(), wants)}
}

func (r *run) downloads() bool { return r.start.Function == string(download.ScriptDownload) }

// argument is the argument of the function: a stored page, or the description of a task.
func (r *run) argument() starlark.Value {
	if r.start.Page != nil {
		return &page{Page: *r.start.Page}
	}
	what := starlark.StringDict{"job": starlark.String(r.start.Job), "attempt": starlark.MakeInt(r.start.Attempt)}
	if r.downloads() {
		what["uri"] = starlark.String(r.start.URI)
		return starlarkstruct.FromStringDict(starlark.String("task"), what)
	}
	what["time"] = starlark.String(r.start.Due)
	return starlarkstruct.FromStringDict(starlark.String("run"), what)
}

// failure is the error that fail makes.
type failure struct {
	text      string
	permanent bool
}

func (f *failure) Error() string { return f.text }

// fault says what ended the code, and in which line.
func (r *run) fault(err error) *wire.End {
	text := err.Error()
	end := &wire.End{}
	var failed *failure
	var raised *starlark.EvalError
	if errors.As(err, &failed) {
		end.Permanent = failed.permanent
	}
	where := r.start.File
	if errors.As(err, &raised) {
		text = raised.Msg
		for _, frame := range raised.CallStack { // the innermost comes last
			if frame.Pos.Filename() == r.start.File && frame.Pos.Line > 0 {
				where = fmt.Sprintf("%s:%d:%d", r.start.File, frame.Pos.Line, frame.Pos.Col)
			}
		}
	}
	if why := r.reason(); why != "" {
		text = why
	}
	end.Fault = where + ": " + cut(strings.ToValidUTF8(text, "\uFFFD"), script.MaxReason)
	return end
}

// cut cuts a text to at most that many bytes.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}
