// Package scriptengine runs the scripts of jobs, which download, generate or parse: it starts a
// jailed process for each attempt, sends the requests that the code asks for, and takes what the
// code emits. Nothing that the process says is trusted: the engine counts for itself, and ends a
// process that exceeds a bound.
package scriptengine

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/reexec"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/child"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// Options are those of an Engine. HTTP, Stored and Follow must be given.
type Options struct {
	HTTP   *httpengine.Engine
	Stored Stored // has the pages that are to be parsed
	// Follow makes tasks of URIs that the code of a job has found, through these filters ("" is
	// none). It may be called again with the same URIs. Its error is that of the attempt.
	Follow func(ctx context.Context, j download.Job, filters []string, tasks []download.NewTask) error
	// Program is run with child.Args, so its Main must be child.Main. "": this very program.
	Program   string
	Processes int   // whose code runs at once; those that wait for a page are not counted; 0: 16
	Memory    int64 // bytes that a process may write to; 0: 256 MiB
	// CPU is the processor time of a process. 0: script.MaxCPU.
	CPU time.Duration
	// Python is the path of an interpreter that runs code in Python. "": there is none.
	Python string
	Log    *slog.Logger // nil: none
}

// Engine is a worker.Engine. It is safe for concurrent use.
type Engine struct {
	worker.Ability
	o      Options
	places chan struct{} // of processes whose code runs
	checks chan struct{}
	python func() (child.Python, error) // returns what it needs
}

// New makes an Engine.
func New(o Options) *Engine {
	o.Processes, o.Memory, o.CPU = cmp.Or(o.Processes, 16), cmp.Or(o.Memory, 256<<20), cmp.Or(o.CPU, script.MaxCPU)
	o.Program = cmp.Or(o.Program, reexec.Self)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{o: o, places: make(chan struct{}, o.Processes), checks: make(chan struct{}, checksAtOnce), python: sync.OnceValues(func() (child.Python, error) { return lookAtPython(o.Python) })}
}

// Probe runs a script that does nothing, and returns why none can be run here, or nil if it can.
// After an error, Download refuses at once.
func (e *Engine) Probe(ctx context.Context) error {
	w := worker.Work{
		Task: download.Task{URI: "http://localhost/"},
		Job: download.Job{Name: "probe", Setting: download.Setting{Timeout: time.Minute},
			Code: download.Code{Language: script.Language, File: "probe.star", Text: "def download(task): pass\n"}},
	}
	_, err := e.Download(ctx, w)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return e.Found(err)
}

// Download implements worker.Engine.
func (e *Engine) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	if err := e.Unable(); err != nil {
		return worker.Page{}, &worker.Failure{Reason: err.Error(), After: worker.UnableFor}
	}
	a := &attempt{e: e, w: w, of: w.Task.Script(), pages: map[int]*fetched{}}
	a.code, a.filters, a.host = scriptOf(w, a.of)
	if err := script.Check(a.code, a.of); err != nil { // the master has checked it, but perhaps in another version
		return worker.Page{}, &worker.Failure{Reason: "code: " + err.Error(), Permanent: true}
	}
	if err := a.enter(ctx); err != nil {
		return worker.Page{}, err
	}
	defer a.leave()
	page, err := a.run(ctx)
	if err = errors.Join(err, a.closePages()); err != nil {
		if page.Body != nil {
			err = errors.Join(err, page.Body.Close())
		}
		return worker.Page{}, err
	}
	return page, nil
}

// scriptOf returns the code of a script, the filters for its links, and its own host.
func scriptOf(w worker.Work, of download.Script) (code download.Code, filters []string, host string) {
	switch of {
	case download.ScriptGenerate:
		g := w.Job.Setting.Generate
		return g.Code, []string{g.Filter, w.Job.Filter}, g.Host
	case download.ScriptParse:
		return w.Job.Setting.Parse.Code, []string{w.Job.Filter}, ""
	}
	return w.Job.Code, []string{w.Job.Filter}, download.HostOf(w.Task.URI)
}
