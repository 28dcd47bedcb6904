package browserengine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

const (
	// MaxBody is the longest body or document that passes between us and a browser, in bytes.
	MaxBody = 16 << 20
	// MaxLoaded is how many bytes a page may load in all.
	MaxLoaded = 64 << 20
	// MaxRequests is how many requests a page may make; further ones fail.
	MaxRequests = 1000
	// MaxDocuments is how many documents may follow each other, by redirects and by scripts.
	MaxDocuments = 11
	// maxMessage is the longest message, which holds a document as JSON.
	maxMessage = 4 * MaxBody
	// quiet is how long a loaded page must make no request before it counts as done.
	quiet = 500 * time.Millisecond
	// elsewhere is how many requests to hosts other than the task's may run at once.
	elsewhere = 4
)

// visit is the load of one page in a separate context: it shares no cookie, cache or storage.
type visit struct {
	e       *Engine
	b       *browser
	w       worker.Work
	ctx     context.Context
	host    string // of the task
	agent   string
	context string
	places  struct{ own, other chan struct{} } // of requests

	requests sync.WaitGroup
	changed  chan struct{} // has room for one

	mu        sync.Mutex // guards the fields below; the first two do not change once there are requests
	target    string     // the page, and its main frame
	session   string
	over      bool   // no more requests are answered
	err       error  // why it has failed
	main      *main  // the document that was answered last
	done      string // the loader of the document that had its load event last
	broken    bool   // the browser must not be used again
	loader    string // of the document that was requested last
	running   int    // requests
	made      int    // requests
	bytes     int64  // of all answers
	posted    int64  // bytes of the bodies of all requests
	documents int
}

// main is a document that is, or was, the page.
type main struct {
	result download.Result
	loader string
	asIs   io.ReadSeekCloser // a body that is not HTML is kept as it came
	before *main             // the document that it replaces
}

func newVisit(ctx context.Context, e *Engine, b *browser, w worker.Work) *visit {
	s := w.Job.Setting
	v := &visit{e: e, b: b, w: w, ctx: ctx, host: download.HostOf(w.Task.URI), agent: e.o.Agent, changed: make(chan struct{}, 1)}
	if own := s.Headers["User-Agent"]; own != "" {
		v.agent = own
	}
	v.places.own, v.places.other = make(chan struct{}, max(1, s.Concurrency)), make(chan struct{}, elsewhere)
	return v
}

// run loads the page, and collects what is to be stored.
func (v *visit) run() (worker.Page, error) {
	v.b.serve(v)
	if err := v.open(); err != nil {
		return worker.Page{}, v.cause(err)
	}
	navigated := v.navigate()
	for documents := 1; ; documents++ {
		if err := v.load(navigated); err != nil {
			return worker.Page{}, v.cause(err)
		}
		page, err := v.result()
		switch {
		case err == nil:
			return page, nil
		case !errors.Is(err, errReplaced) || documents == MaxDocuments:
			return worker.Page{}, v.cause(err)
		}
	}
}

// cause says why the page has failed, if err is only a consequence.
func (v *visit) cause(err error) error {
	var own *worker.Failure
	switch {
	case v.failure() != nil:
		return v.failure()
	case errors.As(err, &own):
		return err
	case v.ctx.Err() != nil:
		return context.Cause(v.ctx)
	}
	v.breaks()
	if errors.Is(err, devtools.ErrTooLong) {
		return v.tooLarge("the page")
	}
	return v.b.died(err)
}

// breaks notes that the state of the browser is unknown.
func (v *visit) breaks() { v.update(func() { v.broken = true }) }

func (v *visit) failure() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.err
}

func (v *visit) tooLarge(what string) *worker.Failure {
	f := worker.Failed("too_large", "%s: %s is longer than the limit", v.w.Task.URI, what)
	f.Permanent = true
	return f
}

func (v *visit) call(method string, params, result any) error {
	return v.b.conn.Call(v.ctx, v.session, method, params, result)
}

// open makes an empty page, all of whose requests are passed to us.
func (v *visit) open() error {
	conn := v.b.conn
	var c contextID
	if err := conn.Call(v.ctx, "", "Target.createBrowserContext", object{"disposeOnDetach": true}, &c); err != nil {
		return err
	}
	v.context = c.ID
	if err := conn.Call(v.ctx, "", "Browser.setDownloadBehavior", object{"behavior": "deny", "browserContextId": c.ID}, nil); err != nil {
		return err
	}
	var t targetID
	if err := conn.Call(v.ctx, "", "Target.createTarget", object{"url": "about:blank", "browserContextId": c.ID}, &t); err != nil {
		return err
	}
	v.set(&v.target, t.ID)
	var s sessionID
	if err := conn.Call(v.ctx, "", "Target.attachToTarget", object{"targetId": t.ID, "flatten": true}, &s); err != nil {
		return err
	}
	v.set(&v.session, s.ID)
	for _, c := range []struct {
		method string
		params any
	}{
		{"Fetch.enable", everyRequest},
		{"Target.setAutoAttach", attachAll},
		{"Page.enable", nil},
		{"Page.setLifecycleEventsEnabled", object{"enabled": true}},
		{"Network.setBypassServiceWorker", object{"bypass": true}},
		{"Emulation.setUserAgentOverride", v.userAgent()},
	} {
		if err := v.call(c.method, c.params, nil); err != nil {
			return err
		}
	}
	return nil
}

var (
	everyRequest = object{"patterns": []object{{"urlPattern": "*"}}}
	attachAll    = object{"autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true}
)

func (v *visit) userAgent() object {
	o := object{"userAgent": v.agent}
	if language := v.w.Job.Setting.Headers["Accept-Language"]; language != "" {
		o["acceptLanguage"] = language
	}
	return o
}

// navigate goes to the task's URI.
func (v *visit) navigate() <-chan error {
	navigated := make(chan error, 1)
	go func() {
		var n navigation
		err := v.call("Page.navigate", object{"url": v.w.Task.URI}, &n)
		if err == nil && n.ErrorText != "" {
			v.breaks()
			err = worker.Failed("browser", "%s: %s", v.w.Task.URI, n.ErrorText)
		}
		navigated <- err
	}()
	return navigated
}

// load waits until the page is done: all of it has loaded, and it requests nothing more.
func (v *visit) load(navigated <-chan error) error {
	calm, late := time.NewTimer(time.Hour), time.NewTimer(time.Hour)
	defer calm.Stop()
	defer late.Stop()
	wasLoaded := false
	for {
		v.mu.Lock()
		err, asIs, loaded, still := v.err, v.main != nil && v.main.asIs != nil, v.main != nil && v.main.loader == v.done, v.running == 0
		v.mu.Unlock()
		if err != nil || asIs {
			return err
		}
		calm.Stop()
		if loaded && still {
			calm.Reset(quiet)
		}
		if loaded != wasLoaded {
			late.Reset(map[bool]time.Duration{true: v.e.o.Settle, false: time.Hour}[loaded])
			wasLoaded = loaded
		}
		select {
		case <-v.changed:
		case err := <-navigated:
			v.mu.Lock()
			lost := v.main == nil // otherwise a document has come since, and is the page
			v.mu.Unlock()
			if err != nil && lost {
				return err
			}
		case <-calm.C:
			return nil
		case <-late.C: // it would continue for ever
			return nil
		case <-v.ctx.Done():
			return v.timeoutError(loaded)
		case <-v.b.conn.Done():
			return v.b.conn.Err()
		}
	}
}

// timeoutError says that the time is over, and what was still awaited.
func (v *visit) timeoutError(loaded bool) error {
	err := context.Cause(v.ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !errors.Is(err, errLate) || loaded:
		return err
	case v.main == nil:
		return fmt.Errorf("%w: the document has not come", err)
	}
	return fmt.Errorf("%w: the document has come, and %d of its requests wait for an answer, or its scripts do not end", err, v.running)
}

// stop makes sure that no further request is answered.
func (v *visit) stop() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.over = true
}

// close waits for the requests of a visit that was stopped, and ends it. It reports whether the browser is as it was before.
func (v *visit) close() bool {
	late := time.AfterFunc(closeIn, v.b.process.Kill) // whoever writes to a browser that reads nothing more would wait for ever
	defer late.Stop()
	v.requests.Wait()
	v.b.serve(nil)
	v.mu.Lock()
	if v.main != nil && v.main.asIs != nil {
		_ = v.main.asIs.Close()
	}
	broken := v.broken
	v.mu.Unlock()
	if v.context == "" || broken {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeIn)
	defer cancel()
	return v.b.conn.Call(ctx, "", "Target.disposeBrowserContext", contextID{v.context}, nil) == nil && late.Stop()
}

// handle handles an event. The reading goroutine calls it.
func (v *visit) handle(event devtools.Event) {
	tell := v.b.conn.Tell // if it fails, the next call sees that
	v.mu.Lock()
	target, session := v.target, v.session
	v.mu.Unlock()
	switch event.Method {
	case "Fetch.requestPaused":
		var p paused
		if json.Unmarshal(event.Params, &p) == nil {
			v.request(event.Session, &p, p.Type == "Document" && p.Frame == target)
		}
	case "Page.frameStartedNavigating":
		var n navigating
		if json.Unmarshal(event.Params, &n) == nil && n.Frame == target {
			v.update(func() { v.loader = n.Loader })
		}
	case "Page.lifecycleEvent":
		var l lifecycle
		if json.Unmarshal(event.Params, &l) == nil && l.Name == "load" && l.Frame == target {
			v.update(func() { v.done = l.Loader })
		}
	case "Page.javascriptDialogOpening": // nobody can answer
		go func() { _ = tell(event.Session, "Page.handleJavaScriptDialog", object{"accept": true}) }()
	case "Target.attachedToTarget":
		var a attached
		if json.Unmarshal(event.Params, &a) == nil && (a.Target.Type == "worker" || a.Target.Type == "iframe") { // others wait for ever
			go func() {
				_ = tell(a.Session, "Fetch.enable", everyRequest)
				_ = tell(a.Session, "Target.setAutoAttach", attachAll)
				_ = tell(a.Session, "Runtime.runIfWaitingForDebugger", nil)
			}()
		}
	case "Inspector.targetCrashed":
		if event.Session == session {
			v.breaks()
			v.fail(worker.Failed("crash", "%s: the page has broken its process, or wanted more than %d MiB", v.w.Task.URI, v.e.o.Memory>>20))
		}
	}
}

func (v *visit) set(what *string, to string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	*what = to
}

// update changes fields that mu guards, and makes load check them.
func (v *visit) update(change func()) {
	v.mu.Lock()
	change()
	v.mu.Unlock()
	select {
	case v.changed <- struct{}{}:
	default:
	}
}

// fail ends the visit. The first reason counts.
func (v *visit) fail(err error) {
	v.update(func() {
		if v.err == nil {
			v.err = err
		}
	})
}
