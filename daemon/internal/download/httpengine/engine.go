// Package httpengine downloads tasks over HTTP: it checks robots.txt, fetches as the job's
// setting says, and names what went wrong.
package httpengine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/cookies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

const (
	// maxLists is how many lists of proxies are kept, with the state of their health.
	maxLists = 1000
	// robotsMemory bounds the memory for rules, in bytes.
	robotsMemory = 64 << 20
	// robotsIn is how long fetching a robots.txt may take.
	robotsIn = 30 * time.Second
	// unreachableFor is the pause before a task is retried whose robots.txt was unreachable.
	unreachableFor = robots.Unreachable
	// noSpaceFor is the pause before a task is tried again for whose page there was no space here.
	noSpaceFor = time.Minute
)

// Engine is a worker.Engine. It is safe for concurrent use.
type Engine struct {
	fetcher *fetch.Fetcher
	robots  *robots.Cache
	cookies *cookies.Store

	mu    sync.Mutex
	lists map[string]*proxies.List // by their URLs
}

// New makes an Engine. The agent names the program in each request; its first word is looked up in
// robots.txt.
func New(fetcher *fetch.Fetcher, agent string) *Engine {
	word, _, _ := strings.Cut(agent, " ")
	e := &Engine{fetcher: fetcher, cookies: cookies.New(0), lists: map[string]*proxies.List{}}
	e.robots = robots.NewCache(word, robotsMemory, nil)
	return e
}

// fetchRobots fetches a robots.txt, without the proxies of a job, because all jobs share the answer.
func (e *Engine) fetchRobots(ctx context.Context, origin string, turn func(context.Context, string) error) (robots.Answer, error) {
	r, err := e.fetcher.Fetch(ctx, fetch.Request{URI: origin + "/robots.txt", Whole: robotsIn, BodyLimit: robots.MaxBytes, Truncate: true, RedirectLimit: robots.MaxRedirects, Before: turn, Again: turn})
	var wrong *fetch.Error
	switch {
	case errors.As(err, &wrong) && slices.Contains([]fetch.Reason{fetch.TooManyRedirects, fetch.RedirectLoop, fetch.BadRedirect}, wrong.Reason):
		return robots.Answer{Status: http.StatusNotFound}, nil
	case errors.As(err, new(*worker.Failure)): // of the turn for a further request: the host must not be called now
		return robots.Answer{}, &robots.Withheld{Err: err}
	case wrong != nil && wrong.Reason == fetch.Storage: // says nothing about the host
		return robots.Answer{}, &robots.Withheld{Err: FailureOf(err, 0)}
	case err != nil:
		return robots.Answer{}, err
	}
	text, err := io.ReadAll(r.Body)
	return robots.Answer{Status: r.Status, Text: text}, errors.Join(err, r.Body.Close())
}

// Download makes one attempt. Failures are a *worker.Failure.
func (e *Engine) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	r, err := e.fetch(ctx, w, Request{URI: w.Task.URI, Own: true, BodyLimit: w.Job.Setting.MaxBytes}, true)
	if err != nil {
		return worker.Page{}, err
	}
	if wrong := r.Failure(); wrong != nil {
		return worker.Page{}, errors.Join(FailureOf(wrong, r.Status), r.Body.Close())
	}
	return worker.Page{Result: ResultOf(r), Body: r.Body}, nil
}

// Request is one request of an attempt.
type Request struct {
	URI       string
	Method    string // "": GET
	Header    http.Header
	Body      []byte
	Own       bool  // send the cookie and the headers of the job's setting; Header overrides them
	BodyLimit int64 // bytes of the answer's body, decompressed
	Single    bool  // a redirect is returned like any other answer, and is not followed
	Part      bool  // a part of a page, such as an image in a browser: parts have no turns, and are sent at once
	// Jar has the cookies; nil: that of the job.
	Jar http.CookieJar
}

// Fetch sends a request of an attempt, as the job's setting says, if robots.txt allows it. The caller
// has waited for its turn. The error is a *worker.Failure; an answer with any status is no error.
func (e *Engine) Fetch(ctx context.Context, w worker.Work, r Request) (*fetch.Response, error) {
	return e.fetch(ctx, w, r, false)
}

// fetch is Fetch. If first is set, this is the first request of the attempt, and a failure may be Early because no
// request was sent. A failure for want of space here is Early in any case.
func (e *Engine) fetch(ctx context.Context, w worker.Work, r Request, first bool) (*fetch.Response, error) {
	s := w.Job.Setting
	list, err := e.proxies(s.Proxies)
	if err != nil {
		return nil, &worker.Failure{Reason: err.Error(), Permanent: true}
	}
	if err := e.allowed(ctx, w, r.URI, r.Part); err != nil {
		if f := (*worker.Failure)(nil); errors.As(err, &f) {
			f.Early = f.Early && first // the attempt may have sent a request before
		}
		return nil, err
	}
	header := http.Header{}
	if r.Own {
		for name, value := range s.Headers {
			header.Set(name, value)
		}
		if s.Cookie != "" {
			header.Set("Cookie", s.Cookie)
		}
	}
	for name, values := range r.Header {
		header[http.CanonicalHeaderKey(name)] = values
	}
	if r.Jar == nil {
		r.Jar = e.Jar(w.Job)
	}
	redirects := 0 // as many as the fetcher would follow itself
	if r.Single {
		redirects = -1
	}
	answer, err := e.fetcher.Fetch(ctx, fetch.Request{
		URI: r.URI, Method: r.Method, Body: r.Body, Header: header, Jar: r.Jar, Proxies: list,
		Connect: s.Timeout, Read: s.Timeout, Whole: s.Timeout, BodyLimit: r.BodyLimit, RedirectLimit: redirects,
		Before: func(ctx context.Context, uri string) error {
			if err := w.Turn(ctx, uri); err != nil { // also of its robots.txt
				return err
			}
			err := e.allowed(ctx, w, uri, false)
			if f := (*worker.Failure)(nil); errors.As(err, &f) {
				f.Early = false // the host that redirected was called
			}
			return err
		},
		Again: w.Turn,
	})
	if err != nil {
		f := FailureOf(err, 0)
		if wrong := (*fetch.Error)(nil); list == nil && errors.As(err, &wrong) && wrong.Reason.Away() {
			f.Crowded, f.Host = true, download.HostOf(wrong.URI)
		}
		return nil, f
	}
	if list == nil { // otherwise it is the address of a proxy
		w.Met(answer.URI, answer.Remote)
	}
	return answer, nil
}

// Jar returns the cookies that servers have set for a job; nil if it keeps none.
func (e *Engine) Jar(j download.Job) http.CookieJar {
	if !j.Setting.KeepCookies {
		return nil
	}
	return e.cookies.Jar(j.ID)
}

// ResultOf returns what is stored of an answer, without the body.
func ResultOf(r *fetch.Response) download.Result {
	return download.Result{URI: r.URI, Status: r.Status, Header: stored(r.Header), ContentType: r.ContentType, Encoding: charset(r.ContentType)}
}

// allowed returns an error for a URI that robots.txt forbids, or whose robots.txt is not
// available. If the host was called for it just now, by whomever, allowed waits for a turn of the host: all that
// waited for a robots.txt would else be sent at once when it comes. The parts of a page are.
func (e *Engine) allowed(ctx context.Context, w worker.Work, uri string, part bool) error {
	if !w.Job.Setting.Robots {
		return nil
	}
	u, err := uris.Parse(uri)
	if err != nil {
		return &worker.Failure{Reason: string(fetch.BadURI) + ": " + err.Error(), Permanent: true}
	}
	verdict, err := e.robots.Ask(ctx, u.Origin(), u.Path, func(ctx context.Context, origin string) (robots.Answer, error) {
		return e.fetchRobots(ctx, origin, w.Turn)
	})
	if err == nil && (verdict.Delay > 0 || verdict.Fetched) && w.Wants != nil {
		w.Wants(ctx, uri, verdict.Delay)
	}
	switch {
	case err != nil:
		return FailureOf(early(err), 0)
	case verdict.Allowed && (verdict.Fetched || verdict.Waited && !part):
		return early(w.Turn(ctx, uri))
	case verdict.Allowed:
		return nil
	case verdict.Unreachable != nil:
		// A proxy may reach hosts that we cannot.
		if wrong := ofHost(verdict.Unreachable, u.Origin()); wrong != nil && len(w.Job.Setting.Proxies) == 0 {
			return FailureOf(wrong, 0)
		}
		return &worker.Failure{Reason: "robots_unreachable: " + uri + ": robots.txt of the host cannot be fetched, which forbids everything for a while: " + verdict.Unreachable.Error(),
			After: unreachableFor, Early: !verdict.Fetched}
	}
	return &worker.Failure{Reason: "robots: " + uri + ": robots.txt of the host forbids it", Permanent: true}
}

// early is the error of a turn if only robots.txt was fetched. It is a copy: others may share the failure.
func early(err error) error {
	if f := (*worker.Failure)(nil); errors.As(err, &f) {
		own := *f
		own.Early = true
		return &own
	}
	return err
}

// ofHost is an error of fetching an origin's robots.txt that any page of the origin would get, too.
func ofHost(err error, origin string) *fetch.Error {
	var wrong *fetch.Error
	if errors.As(err, &wrong) && wrong.URI == origin+"/robots.txt" && slices.Contains([]fetch.Reason{
		fetch.DNSNotFound, fetch.RefusedAddress, fetch.RefusedPort, fetch.TLS, fetch.TLSExpired, fetch.TLSHostname, fetch.TLSUnknownAuthority}, wrong.Reason) {
		return wrong
	}
	return nil
}

// FailureOf returns the failure that an error of a fetch, or an answer with a status, means.
func FailureOf(err error, status int) *worker.Failure {
	var own *worker.Failure
	if errors.As(err, &own) {
		return own
	}
	f := &worker.Failure{Reason: err.Error(), Status: status}
	var wrong *fetch.Error
	if errors.As(err, &wrong) {
		f.Reason = string(wrong.Reason) + ": " + wrong.Error()
		f.Permanent, f.After = wrong.Permanent, wrong.After
		if status != 0 {
			f.Host = download.HostOf(wrong.URI)
		}
		if wrong.Reason == fetch.Storage { // of this machine: it says nothing about the task
			f.Early, f.After = true, noSpaceFor
		}
	}
	f.Crowded = status == http.StatusTooManyRequests || status >= 500
	return f
}

// proxies returns the proxies of a setting. The same URLs give the same list, so that all avoid a
// proxy that fails.
func (e *Engine) proxies(urls []string) (*proxies.List, error) {
	if len(urls) == 0 {
		return nil, nil
	}
	key := strings.Join(urls, "\n")
	e.mu.Lock()
	defer e.mu.Unlock()
	if list, ok := e.lists[key]; ok {
		return list, nil
	}
	list, err := proxies.New(urls, time.Now)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	if len(e.lists) >= maxLists {
		clear(e.lists)
	}
	e.lists[key] = list
	return list, nil
}

// charset is the encoding that a Content-Type declares, in lower case.
func charset(contentType string) string {
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return ""
	}
	return strings.ToLower(params["charset"])
}

// stored drops headers that describe the connection, and those that would let others log in.
func stored(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if !slices.Contains([]string{"Set-Cookie", "Connection", "Keep-Alive", "Transfer-Encoding"}, name) {
			out[name] = values
		}
	}
	return out
}
