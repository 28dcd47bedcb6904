package scriptengine

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
)

// attempt is one attempt at a task. It belongs to one goroutine, except for its clock.
type attempt struct {
	e       *Engine
	w       worker.Work
	of      download.Script
	code    download.Code
	filters []string // that links must pass
	host    string   // called with the cookie and the headers of the setting
	process *process
	reader  atomic.Pointer[process] // reads pages for code in Python; nil until the code asks for one
	clock   *clock.Clock

	placed  bool // it has one of the engine's places
	begun   bool // the host of the task was called
	crowded bool
	pages   map[int]*fetched // by their number, from 1
	bytes   int64            // of their bodies
	last    *fetched
	records bytes.Buffer
	emitted int // number of records
	named   int // number of links, including those that are not URIs
	lines   int
	links   []download.NewTask
	known   map[string]bool // of links
}

// run runs the code, and makes tasks of the links that it follows.
func (a *attempt) run(ctx context.Context) (worker.Page, error) {
	s := a.w.Job.Setting
	start := &wire.Start{File: a.code.File, Text: a.code.Text, Function: string(a.of), URI: a.w.Task.URI, Job: a.w.Job.Name, Attempt: a.w.Task.Attempts}
	switch a.of {
	case download.ScriptGenerate:
		start.Due = a.w.Task.Due().Format(time.RFC3339)
	case download.ScriptParse:
		var err error
		if start.Page, err = a.stored(ctx); err != nil {
			return worker.Page{}, err
		}
	}
	args, err := a.e.args(a.code)
	if err != nil {
		return worker.Page{}, &worker.Failure{Reason: "python: " + err.Error(), After: worker.UnableFor}
	}
	p, err := startProcess(a.e.o.Program, a.e.limits(), args)
	if err != nil {
		return worker.Page{}, a.unstarted("its process", err)
	}
	defer p.end()
	a.process = p
	defer func() {
		if reader := a.reader.Load(); reader != nil {
			reader.end()
		}
	}()
	inTime, cancel := context.WithCancel(ctx)
	defer cancel()
	a.clock = clock.Start(s.Timeout, func() {
		cancel()
		why := "timeout: ran longer than " + s.Timeout.String()
		p.stop(why)
		a.killReader(why)
	})
	defer a.clock.Stop()
	a.w = a.w.Pausing(a.clock) // waiting for a host does not count as the code's time
	defer context.AfterFunc(ctx, func() {
		p.kill("the worker has stopped it")
		a.killReader("the worker has stopped it")
	})()
	p.send(wire.Down{Start: start})
	end, err := a.serve(inTime)
	switch {
	case ctx.Err() != nil:
		return worker.Page{}, context.Cause(ctx)
	case err != nil:
		return worker.Page{}, err
	case end.Memory:
		return worker.Page{}, worker.Failed("memory", "%s: wanted more than %d MiB", end.Fault, a.e.o.Memory>>20)
	case end.Fault != "":
		f := worker.Failed("code", "%s", end.Fault)
		f.Permanent, f.Crowded = end.Permanent, a.crowded
		return worker.Page{}, f
	}
	if err := a.followed(ctx); err != nil {
		return worker.Page{}, err
	}
	return a.result(end.Page)
}

// unstartedFor is the pause before code is run again for which no process could be started.
const unstartedFor = time.Minute

// unstarted is the failure of an attempt for which a process cannot be started: of this machine, which says nothing
// about the task.
func (a *attempt) unstarted(what string, err error) *worker.Failure {
	a.e.o.Log.Warn("no process for job code", "job", a.w.Job.Name, "err", err)
	f := worker.Failed("code", "%s cannot be started: %v", what, err)
	f.Early, f.After = true, unstartedFor
	return f
}

// enter waits for one of the engine's places. It does nothing if the attempt has one.
func (a *attempt) enter(ctx context.Context) error {
	if a.placed {
		return nil
	}
	select {
	case a.e.places <- struct{}{}:
		a.placed = true
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave lets others have the place.
func (a *attempt) leave() {
	if a.placed {
		<-a.e.places
		a.placed = false
	}
}

// serve answers the requests of the process until its last message. When ctx ends, requests are cut off.
func (a *attempt) serve(ctx context.Context) (*wire.End, error) {
	for {
		var m wire.Up
		if err := a.process.read(&m); errors.Is(err, io.EOF) {
			return nil, a.process.wait(a.code.File)
		}
		var err error
		switch {
		case m.End != nil:
			return m.End, nil
		case m.Fetch != nil:
			err = a.fetch(ctx, m.Fetch)
		case m.Ask != nil && a.code.Language == script.Python:
			err = a.relayQuestion(m.Ask)
		case m.Emit != nil:
			err = a.emit(m.Emit)
		case m.Follow != nil:
			err = a.follow(m.Follow)
		case m.Log != nil:
			a.log(*m.Log)
		default:
			err = a.tooFar("sent an unknown message")
		}
		if err != nil && (ctx.Err() == nil || a.process.stopped() == "") {
			return nil, err
		} // else the process is told to stop, and says where it was
	}
}

// tooFar ends the attempt because the process exceeds bounds that child itself would keep.
func (a *attempt) tooFar(what string) error {
	a.process.kill(what)
	return worker.Failed("code", "%s: %s", a.code.File, what)
}

func (a *attempt) emit(record json.RawMessage) error {
	if a.emitted++; a.emitted > script.MaxRecords || a.records.Len()+len(record) > script.MaxEmitted+script.MaxRecords {
		return a.tooFar("emitted more than allowed")
	}
	var line bytes.Buffer
	if err := json.Compact(&line, record); err != nil {
		return a.tooFar("emitted invalid JSON")
	}
	a.records.Write(line.Bytes())
	a.records.WriteByte('\n')
	return nil
}

func (a *attempt) log(text string) {
	if a.lines++; a.lines <= script.MaxLines {
		a.e.o.Log.Info("job code says", "job", a.w.Job.Name, "task", a.w.Task.ID, "text", text[:min(len(text), 2*script.MaxLine)])
	}
}

// result returns what is stored: the page that the code has returned, 0 for none.
func (a *attempt) result(number int) (worker.Page, error) {
	page := worker.Page{Result: download.Result{URI: download.PageOf(a.w.Task.URI)}, Crowded: a.crowded}
	if a.last != nil {
		page.Result = a.last.result
	}
	if number != 0 {
		f := a.pages[number]
		if f == nil {
			return page, a.tooFar("returned a page that does not exist")
		}
		page.Result, page.Body = f.result, f.body
		f.body = nil
	}
	if a.records.Len() > 0 {
		page.Records = a.records.Bytes()
	}
	return page, nil
}

func (a *attempt) closePages() error {
	var errs []error
	for _, f := range a.pages {
		if f.body != nil {
			errs = append(errs, f.body.Close())
		}
	}
	return errors.Join(errs...)
}
