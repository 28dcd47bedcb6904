package browserengine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// MaxRecord is the longest JSON that download_js may return, in bytes.
const MaxRecord = 16 << 20

// errReplaced means that another document came while one was taken: the page had been quiet only for a while.
var errReplaced = errors.New("the document was replaced")

// result returns what is stored of the page: the result of the job's script, and the document after it has run.
func (v *visit) result() (worker.Page, error) {
	if page, ok := v.takeAsIs(); ok {
		return page, nil
	}
	record, err := v.script()
	if err != nil {
		return worker.Page{}, err
	}
	var d document
	if err := v.call("DOM.getDocument", object{"depth": 0}, &d); err != nil {
		return worker.Page{}, err
	}
	var o outerHTML
	err = v.call("DOM.getOuterHTML", object{"nodeId": d.Root.Node}, &o)
	switch refused := (*devtools.Error)(nil); {
	case errors.As(err, &refused): // the node does not exist any more
		return worker.Page{}, fmt.Errorf("%w: %w", errReplaced, err)
	case err != nil:
		return worker.Page{}, err
	}
	if int64(len(o.HTML)) > min(MaxBody, v.w.Job.Setting.MaxBytes) {
		return worker.Page{}, v.tooLarge("the document")
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.err != nil || v.main == nil {
		return worker.Page{}, errors.Join(v.err, worker.Failed("browser", "%s: there is no document", v.w.Task.URI))
	}
	page := worker.Page{Result: v.main.result, Body: text{bytes.NewReader([]byte(o.HTML))}}
	page.ContentType, page.Encoding, page.Records = "text/html; charset=utf-8", "utf-8", record
	return page, nil
}

// takeAsIs returns the page if it is not HTML.
func (v *visit) takeAsIs() (worker.Page, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.main == nil || v.main.asIs == nil {
		return worker.Page{}, false
	}
	page := worker.Page{Result: v.main.result, Body: v.main.asIs}
	v.main.asIs = nil
	return page, true
}

// script runs the job's script in the page. It returns the JSON of the result, as one line, or nil for none.
func (v *visit) script() ([]byte, error) {
	code := v.w.Job.Setting.Script
	if code == "" {
		return nil, nil
	}
	var e evaluation
	err := v.call("Runtime.evaluate", object{
		// On one line with its beginning, so that errors show the line numbers of the script.
		"expression": scriptBegins + code + "\n})()\n//# sourceURL=" + scriptName, "awaitPromise": true, "returnByValue": true,
	}, &e)
	var refused *devtools.Error
	switch {
	case errors.As(err, &refused): // the page has moved to another, or the result is no JSON
		return nil, worker.Failed("script", "%s: %s", scriptName, refused.Message)
	case err != nil:
		return nil, err
	case e.Exception != nil:
		return nil, e.failure()
	case e.Result.Unserializable != "":
		return nil, worker.Failed("script", "%s: returns %s, which JSON does not have", scriptName, e.Result.Unserializable)
	case len(e.Result.Value) > MaxRecord:
		return nil, worker.Failed("script", "%s: returns more than %d bytes", scriptName, MaxRecord)
	case len(e.Result.Value) == 0: // undefined
		return nil, nil
	}
	var line bytes.Buffer
	if err := json.Compact(&line, e.Result.Value); err != nil {
		return nil, worker.Failed("script", "%s: %v", scriptName, err)
	}
	line.WriteByte('\n')
	return line.Bytes(), nil
}

const (
	scriptName   = "download_js"
	scriptBegins = "(async () => {"
)

var scriptPlace = regexp.MustCompile(scriptName + `:(\d+):(\d+)`)

// failure is what a script has thrown, with its place. A syntax error is permanent.
func (e *evaluation) failure() *worker.Failure {
	x := e.Exception
	what, _, _ := strings.Cut(x.Value.Description, "\n")
	if what == "" { // it has thrown something other than an Error
		what = x.Text + " " + string(x.Value.Value)
	}
	syntax := x.Text == "Uncaught" && strings.HasPrefix(what, "SyntaxError")
	line, column := x.Line+1, x.Column+1
	place := scriptPlace.FindStringSubmatch(x.Value.Description)
	f := worker.Failed("script", "%s: %s", scriptName, strings.TrimSpace(what))
	switch {
	case place != nil:
		if line, _ = strconv.Atoi(place[1]); line == 1 {
			column, _ = strconv.Atoi(place[2])
			place[0] = fmt.Sprintf("%s:1:%d", scriptName, max(1, column-len(scriptBegins)))
		}
		f = worker.Failed("script", "%s: %s", place[0], what)
	case syntax && line == 1:
		f = worker.Failed("script", "%s:1:%d: %s", scriptName, max(1, column-len(scriptBegins)), what)
	case syntax:
		f = worker.Failed("script", "%s:%d:%d: %s", scriptName, line, column, what)
	}
	f.Permanent = syntax
	return f
}

// text is a body in memory.
type text struct{ *bytes.Reader }

func (text) Close() error { return nil }
