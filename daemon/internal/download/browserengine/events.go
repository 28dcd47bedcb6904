package browserengine

import (
	"encoding/json"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
)

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
			v.fail(failed("crash", "%s: the page has broken its process, or wanted more than %d MiB", v.w.Task.URI, v.e.o.Memory>>20))
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
