// Package browserengine downloads tasks with a browser for the worker: it loads the page, lets its
// scripts run, and stores the resulting document. The browser has no network. Each of its requests
// is passed to the worker, which sends it like any other, and passes the answer back. The page gets
// nothing else.
package browserengine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/chromium"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
)

const (
	// startIn is how long a browser may take until its first message.
	startIn = time.Minute
	// closeIn is how long a page may take to close; then its browser is killed.
	closeIn = 5 * time.Second
)

// Options are those of an Engine. HTTP and Dir must be given.
type Options struct {
	HTTP    *httpengine.Engine
	Dir     string        // for profiles
	Path    string        // of the browser; "": search for it
	Program string        // is run with chromium.Command; "": this very program
	Agent   string        // names the program in requests of jobs that name no other
	Pages   int           // at once, each in a separate browser; 0: 2
	Memory  int64         // bytes of data of a process of the browser; 0: 1 GiB
	Renew   int           // number of pages after which a browser is restarted; 0: 100
	Idle    time.Duration // how long an idle browser is kept; 0: 1 min
	Settle  time.Duration // how long to wait for a page that continues to load after its load event; 0: 10 s
	Log     *slog.Logger  // nil: none
}

// Engine is a worker.Engine. It is safe for concurrent use.
type Engine struct {
	worker.Ability
	o      Options
	places chan struct{}

	mu     sync.Mutex // guards the fields below
	idle   []*browser // the most recently used one last
	closed bool
}

// New makes an Engine. Close it.
func New(o Options) *Engine {
	o.Pages, o.Memory, o.Renew = cmp.Or(o.Pages, 2), cmp.Or(o.Memory, 1<<30), cmp.Or(o.Renew, 100)
	o.Idle, o.Settle = cmp.Or(o.Idle, time.Minute), cmp.Or(o.Settle, 10*time.Second)
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Engine{o: o, places: make(chan struct{}, o.Pages)}
}

// Probe returns why there can be no browser here, or nil if there seems to be one; it starts none.
// After an error, Download refuses at once.
func (e *Engine) Probe() error {
	if _, err := chromium.Find(e.o.Path); err != nil {
		return e.Found(fmt.Errorf("browser: no browser: %w", err))
	}
	if err := chromium.Jailed(); err != nil {
		return e.Found(fmt.Errorf("jail: no browser: %w", err))
	}
	return e.Found(nil)
}

// Download implements worker.Engine.
func (e *Engine) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	if err := e.Unable(); err != nil {
		return worker.Page{}, unable("%v", err)
	}
	select {
	case e.places <- struct{}{}:
		defer func() { <-e.places }()
	case <-ctx.Done():
		return worker.Page{}, context.Cause(ctx)
	}
	b, err := e.acquire(ctx, w.Job.ID)
	if err != nil {
		return worker.Page{}, err
	}
	if err := w.First(ctx); err != nil { // the browser is there now; nothing was sent yet
		e.giveBack(b)
		return worker.Page{}, err
	}
	return e.visit(ctx, b, w)
}

// visit downloads a page with a browser, and then gives the browser back, or ends it if its state has changed.
func (e *Engine) visit(ctx context.Context, b *browser, w worker.Work) (worker.Page, error) {
	timeout := w.Job.Setting.Timeout
	inTime, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := clock.Start(timeout, func() { cancel(fmt.Errorf("%s: %s: %w %s", fetch.Timeout, w.Task.URI, errLate, timeout)) })
	defer limit.Stop()
	w = w.Pausing(limit) // the page does not pay for the time until its host's turn
	// Nothing else ends a browser that no longer reacts.
	stop := context.AfterFunc(inTime, b.process.Kill)
	v := newVisit(inTime, e, b, w)
	page, err := v.run()
	alive := stop()
	v.stop()
	cancel(nil)
	if whole := v.close(); alive && whole {
		e.giveBack(b)
	} else if ended := b.end(); ended != nil {
		e.o.Log.Warn("browser not cleaned up", "err", ended)
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && page.Body != nil {
		err = errors.Join(err, page.Body.Close())
		page = worker.Page{}
	}
	return page, err
}

// Close ends all browsers. Downloads must have ended.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	idle := e.idle
	e.idle = nil
	e.mu.Unlock()
	var errs []error
	for _, b := range idle {
		errs = append(errs, b.end())
	}
	return errors.Join(errs...)
}

// errLate is wrapped when an attempt exceeds its time.
var errLate = errors.New("not done within")

// unable is the failure of all attempts while there is no browser here, or no jail.
func unable(format string, args ...any) *worker.Failure {
	return &worker.Failure{Reason: fmt.Sprintf(format, args...), After: worker.UnableFor}
}
