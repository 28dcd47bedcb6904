package scriptengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script"
	"github.com/cr-clawer/urifilter/daemon/internal/download/script/wire"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// fetched is a page that was fetched for the code.
type fetched struct {
	result download.Result
	body   io.ReadSeekCloser // nil after it was handed over
}

// fetch sends a request for the code, in its host's turn, and answers. The answer reports
// mistakes of the code; other errors end the attempt, as they do without code.
func (a *attempt) fetch(ctx context.Context, q *wire.Fetch) error {
	refuse := func(format string, args ...any) error {
		a.process.send(wire.Down{Page: &wire.Page{Refused: fmt.Sprintf(format, args...)}})
		return nil
	}
	if len(a.pages) >= script.MaxFetches {
		return refuse("more than %d pages in one attempt", script.MaxFetches)
	}
	if len(q.Body) > script.MaxSent {
		return a.tooFar("sent more than allowed")
	}
	to, err := uris.Parse(q.URL)
	if err != nil {
		return refuse("%.200q: %v", q.URL, err)
	}
	if a.of == download.ScriptParse {
		return a.tooFar("fetched a page, which parse cannot")
	}
	own := a.host != "" && download.HostOf(to.String()) == a.host
	r := httpengine.Request{URI: q.URL, Method: strings.ToUpper(q.Method), Body: q.Body, Own: own, Header: http.Header{}, BodyLimit: min(a.w.Job.Setting.MaxBytes, script.MaxPage)}
	for name, value := range q.Headers {
		r.Header.Set(name, value)
	}
	answer, err := a.waitFor(ctx, r, to.String(), own)
	if err != nil {
		return err
	}
	f := &fetched{result: httpengine.ResultOf(answer), body: answer.Body}
	number := len(a.pages) + 1
	a.pages[number], a.last = f, f
	if answer.Status == http.StatusTooManyRequests || answer.Status >= 500 {
		a.crowded = a.crowded || download.HostOf(answer.URI) == a.host
	}
	if wrong := answer.Failure(); wrong != nil && !q.Any {
		return httpengine.FailureOf(wrong, answer.Status)
	}
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if _, err := answer.Body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if a.bytes += int64(len(text)); a.bytes > script.MaxFetched {
		return refuse("more than %d bytes of pages in one attempt", script.MaxFetched)
	}
	page := &wire.Page{ID: number, URL: answer.URI, Status: answer.Status, ContentType: answer.ContentType, Body: text, Headers: headersOf(f.result.Header)}
	a.process.send(wire.Down{Page: page})
	return nil
}

// waitFor fetches a page in its host's turn. Meanwhile the code does not run, and its place is for others: a host with a
// long delay would otherwise hold up all code. Waiting for a place afterwards is no time of the code.
func (a *attempt) waitFor(ctx context.Context, r httpengine.Request, uri string, own bool) (*fetch.Response, error) {
	a.leave()
	if err := a.turn(ctx, uri, own); err != nil {
		return nil, err
	}
	answer, err := a.e.o.HTTP.Fetch(ctx, a.w, r)
	if err != nil {
		return nil, err
	}
	resume := a.clock.Pause()
	defer resume()
	if err := a.enter(ctx); err != nil {
		return nil, errors.Join(err, answer.Body.Close())
	}
	return answer, nil
}

// turn waits until a request may be sent. The first request to the host of a task's URI already has its turn.
func (a *attempt) turn(ctx context.Context, uri string, own bool) error {
	switch {
	case own && !a.begun && a.of == download.ScriptDownload:
		a.begun = true
		return a.w.First(ctx)
	case !own:
		held, err := a.w.Holds(ctx, uri)
		if err != nil {
			return err
		}
		if !held {
			return &worker.Failure{Reason: "other_worker: " + uri + ": another worker calls that host: " + a.instead()}
		}
	}
	return a.w.Turn(ctx, uri)
}

// instead is the advice for code whose host cannot be called.
func (a *attempt) instead() string {
	if a.of == download.ScriptGenerate {
		return "name it as generate.host of the job, or let follow() make a task of it"
	}
	return "let follow() make a task of it"
}

// follow takes links. Links of a page that are not URIs of http or https are ignored; without a
// page the links are the code's own, and an invalid one is its fault.
func (a *attempt) follow(f *wire.Follow) error {
	if a.named += len(f.Links); a.named > script.MaxLinks {
		return a.tooFar("followed more links than allowed")
	}
	resolve := uris.Parse
	if f.Base != "" {
		base, err := uris.Parse(f.Base)
		if err != nil {
			return a.tooFar("follows links of a page that has no URI")
		}
		resolve = base.Resolve
	}
	for _, link := range f.Links {
		task, err := taskOf(link, resolve)
		switch {
		case err != nil && f.Base == "":
			a.process.kill("it followed what is no URI")
			return worker.Failed("code", "%s: follow: %v", a.code.File, err)
		case err != nil || a.known[task.URI]:
			continue
		}
		if a.known == nil {
			a.known = map[string]bool{}
		}
		a.known[task.URI] = true
		a.links = append(a.links, task)
	}
	return nil
}

// taskOf makes a task of a link. Errors name the link.
func taskOf(link string, resolve func(string) (*uris.URI, error)) (download.NewTask, error) {
	to, err := resolve(link)
	if err != nil {
		return download.NewTask{}, fmt.Errorf("%.100q: want a URI with http:// or https://", link)
	}
	return download.TaskOf(to.String())
}

// followed makes tasks of the links. If the attempt is a repetition, they exist already.
func (a *attempt) followed(ctx context.Context) error {
	if len(a.links) == 0 {
		return nil
	}
	return a.e.o.Follow(ctx, a.w.Job, a.filters, a.links)
}
