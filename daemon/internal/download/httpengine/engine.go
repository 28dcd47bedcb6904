// Package httpengine downloads tasks over HTTP: it asks robots.txt, fetches as the job's setting
// says, and names what went wrong.
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
	// maxLists is how many lists of proxies are kept, with what is known of their health.
	maxLists = 1000
	// robotsMemory is for how many bytes of rules there is room.
	robotsMemory = 64 << 20
	// robotsIn is how long a robots.txt may take.
	robotsIn = 30 * time.Second
	// unreachableFor is after how long a task is tried again whose robots.txt could not be had.
	unreachableFor = robots.Unreachable
)

// Engine is a worker.Engine. It is safe for concurrent use.
type Engine struct {
	fetcher *fetch.Fetcher
	robots  *robots.Cache
	cookies *cookies.Store

	mu    sync.Mutex
	lists map[string]*proxies.List // by their URLs
}

// New makes an Engine. The agent is what names the program in each request; robots.txt is asked for
// its first word.
func New(fetcher *fetch.Fetcher, agent string) *Engine {
	word, _, _ := strings.Cut(agent, " ")
	e := &Engine{fetcher: fetcher, cookies: cookies.New(0), lists: map[string]*proxies.List{}}
	e.robots = robots.NewCache(word, robotsMemory, e.fetchRobots, nil)
	return e
}

// askingKey is where the context of a call has an *asking.
type askingKey struct{}

// asking is for a robots.txt that may have to be fetched.
type asking struct {
	asked bool                                // it was
	turn  func(context.Context, string) error // as of [worker.Work]
}

// fetchRobots asks for a robots.txt, without the proxies of a job: what it says is for all jobs.
func (e *Engine) fetchRobots(ctx context.Context, origin string) (robots.Answer, error) {
	var again func(context.Context, string) error
	if a, ok := ctx.Value(askingKey{}).(*asking); ok {
		a.asked, again = true, a.turn
	}
	r, err := e.fetcher.Fetch(ctx, fetch.Request{URI: origin + "/robots.txt", Whole: robotsIn, BodyLimit: robots.MaxBytes, Truncate: true, RedirectLimit: robots.MaxRedirects, Again: again})
	var wrong *fetch.Error
	switch {
	case errors.As(err, &wrong) && slices.Contains([]fetch.Reason{fetch.TooManyRedirects, fetch.RedirectLoop, fetch.BadRedirect}, wrong.Reason):
		return robots.Answer{Status: http.StatusNotFound}, nil
	case errors.As(err, new(*worker.Failure)): // of the turn to ask once more: the host is not to be asked now
		return robots.Answer{}, &robots.Withheld{Err: err}
	case err != nil:
		return robots.Answer{}, err
	}
	text, err := io.ReadAll(r.Body)
	return robots.Answer{Status: r.Status, Text: text}, errors.Join(err, r.Body.Close())
}

// Download makes one attempt. What fails is a *worker.Failure.
func (e *Engine) Download(ctx context.Context, w worker.Work) (worker.Page, error) {
	r, err := e.fetch(ctx, w, Request{URI: w.Task.URI, Own: true, BodyLimit: w.Job.Setting.MaxBytes})
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
	Own       bool  // with the cookie and the headers of the job's setting, below those of Header
	BodyLimit int64 // bytes of the answer's body, decompressed
	Single    bool  // a redirect is an answer like any other, and is not followed
	// Jar has the cookies; nil: that of the job.
	Jar http.CookieJar
}

// Fetch sends a request of an attempt, as the job's setting says, if robots.txt allows it. The
// caller has waited for its turn. The error is a *worker.Failure; an answer with any status is none.
func (e *Engine) Fetch(ctx context.Context, w worker.Work, r Request) (*fetch.Response, error) {
	answer, err := e.fetch(ctx, w, r)
	if f := (*worker.Failure)(nil); errors.As(err, &f) {
		f.Early = false // the attempt may have asked for something before
	}
	return answer, err
}

// fetch is Fetch. Its error may be a failure that is early: nothing was asked for.
func (e *Engine) fetch(ctx context.Context, w worker.Work, r Request) (*fetch.Response, error) {
	s := w.Job.Setting
	list, err := e.proxies(s.Proxies)
	if err != nil {
		return nil, &worker.Failure{Reason: err.Error(), Permanent: true}
	}
	if err := e.allowed(ctx, w, r.URI); err != nil {
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
	redirects := 0 // as many as the fetcher follows by itself
	if r.Single {
		redirects = -1
	}
	answer, err := e.fetcher.Fetch(ctx, fetch.Request{
		URI: r.URI, Method: r.Method, Body: r.Body, Header: header, Jar: r.Jar, Proxies: list,
		Connect: s.Timeout, Read: s.Timeout, Whole: s.Timeout, BodyLimit: r.BodyLimit, RedirectLimit: redirects,
		Before: func(ctx context.Context, uri string) error {
			if err := e.allowed(ctx, w, uri); err != nil {
				if f := (*worker.Failure)(nil); errors.As(err, &f) {
					f.Early = false // the host that the redirect came from was asked
				}
				return err
			}
			return w.Turn(ctx, uri)
		},
		Again: w.Turn,
	})
	if err != nil {
		return nil, FailureOf(err, 0)
	}
	if list == nil { // or it is the address of a proxy
		w.Met(answer.URI, answer.Remote)
	}
	return answer, nil
}

// Jar has the cookies that servers have set for a job; nil if it keeps none.
func (e *Engine) Jar(j download.Job) http.CookieJar {
	if !j.Setting.KeepCookies {
		return nil
	}
	return e.cookies.Jar(j.ID)
}

// ResultOf is what is stored of an answer, but the body.
func ResultOf(r *fetch.Response) download.Result {
	return download.Result{URI: r.URI, Status: r.Status, Header: stored(r.Header), ContentType: r.ContentType, Encoding: charset(r.ContentType)}
}

// allowed is an error for a URI that robots.txt forbids, or whose robots.txt cannot be had. If the
// host was asked for it just now, it waits for its next turn.
func (e *Engine) allowed(ctx context.Context, w worker.Work, uri string) error {
	if !w.Job.Setting.Robots {
		return nil
	}
	u, err := uris.Parse(uri)
	if err != nil {
		return &worker.Failure{Reason: string(fetch.BadURI) + ": " + err.Error(), Permanent: true}
	}
	a := asking{turn: w.Turn}
	verdict, err := e.robots.Ask(context.WithValue(ctx, askingKey{}, &a), u.Origin(), u.Path)
	switch {
	case err != nil:
		return FailureOf(early(err), 0)
	case verdict.Allowed && a.asked:
		return early(w.Turn(ctx, uri))
	case verdict.Allowed:
		return nil
	case verdict.Unreachable != nil:
		// A proxy may know ways that we do not.
		if wrong := ofHost(verdict.Unreachable, u.Origin()); wrong != nil && len(w.Job.Setting.Proxies) == 0 {
			return FailureOf(wrong, 0)
		}
		return &worker.Failure{Reason: "robots_unreachable: " + uri + ": robots.txt of the host cannot be fetched, which forbids everything for a while: " + verdict.Unreachable.Error(),
			After: unreachableFor, Early: !a.asked}
	}
	return &worker.Failure{Reason: "robots: " + uri + ": robots.txt of the host forbids it", Permanent: true}
}

// early is the error of a turn, where nothing but robots.txt was asked for. Others may have the same failure.
func early(err error) error {
	if f := (*worker.Failure)(nil); errors.As(err, &f) {
		own := *f
		own.Early = true
		return &own
	}
	return err
}

// ofHost is an error of asking for the robots.txt of an origin that any page there would end with, too.
func ofHost(err error, origin string) *fetch.Error {
	var wrong *fetch.Error
	if errors.As(err, &wrong) && wrong.URI == origin+"/robots.txt" && slices.Contains([]fetch.Reason{
		fetch.DNSNotFound, fetch.RefusedAddress, fetch.RefusedPort, fetch.TLS, fetch.TLSExpired, fetch.TLSHostname, fetch.TLSUnknownAuthority}, wrong.Reason) {
		return wrong
	}
	return nil
}

// FailureOf is the failure that an error of a fetch, or an answer with a status, means.
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
	}
	f.Crowded = status == http.StatusTooManyRequests || status >= 500
	return f
}

// proxies are those of a setting, the same list for the same URLs, so that one that fails is left
// out by all.
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

// stored leaves out what tells of the connection, and what would let others log in.
func stored(h http.Header) http.Header {
	out := http.Header{}
	for name, values := range h {
		if !slices.Contains([]string{"Set-Cookie", "Connection", "Keep-Alive", "Transfer-Encoding"}, name) {
			out[name] = values
		}
	}
	return out
}
