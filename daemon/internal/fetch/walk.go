package fetch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// walk is one request with its redirects. It belongs to one goroutine.
type walk struct {
	f     *Fetcher
	r     Request
	proxy *proxies.Proxy // nil: none
	whole *clock.Clock   // of Request.Whole

	at        *uri.URI
	method    string
	sent      []byte // the body of the request
	header    http.Header
	seen      map[string]bool
	redirects int // that were followed
}

func newWalk(f *Fetcher, r Request) *walk {
	r.Method = cmp.Or(r.Method, http.MethodGet)
	r.Connect, r.Read, r.Whole = cmp.Or(r.Connect, 10*time.Second), cmp.Or(r.Read, 30*time.Second), cmp.Or(r.Whole, 5*time.Minute)
	r.BodyLimit, r.RedirectLimit, r.MinRate = cmp.Or(r.BodyLimit, 32<<20), cmp.Or(r.RedirectLimit, 10), cmp.Or(r.MinRate, 100)
	return &walk{f: f, r: r, method: r.Method, sent: r.Body, seen: map[string]bool{}}
}

func (w *walk) walk(ctx context.Context) (*Response, *Error) {
	var err error
	if w.at, err = uri.Parse(w.r.URI); err != nil {
		return nil, failure(BadURI, w.r.URI, err)
	}
	if w.header, err = w.checked(); err != nil {
		return nil, failure(BadRequest, w.at.String(), err)
	}
	if w.r.Proxies != nil {
		if w.proxy, err = w.r.Proxies.Next(); err != nil {
			e := failure(Proxy, w.at.String(), err)
			if none := (*proxies.NoneError)(nil); errors.As(err, &none) {
				e.After = max(time.Second, none.Until.Sub(w.f.o.Now()))
			}
			return nil, e
		}
	}
	for {
		h := newHop(w, ctx)
		answer, e := h.send()
		if e != nil {
			return nil, e
		}
		next, e := w.next(answer)
		if e == nil && next == nil {
			return w.finish(h, answer)
		}
		short := h.leave(answer, w.r.Passed != nil)
		if w.r.Passed != nil {
			w.r.Passed(Passed{URI: w.at.String(), Status: answer.StatusCode, Header: answer.Header, Body: short, Remote: h.remote()})
		}
		if e != nil {
			return nil, e
		}
		if w.r.OwnBody && len(w.sent) > 0 && !w.dropsBody(answer.StatusCode) && w.leaves(next) {
			return nil, failure(BadRedirect, w.at.String(), fmt.Errorf("to %.200q: what is sent to %s would be sent there, too", next.Origin(), w.at.Origin()))
		}
		w.follow(answer.StatusCode, next)
		if w.r.Before != nil {
			resume := w.whole.Pause() // it waits for others
			err := w.r.Before(ctx, next.String())
			if resume(); err != nil {
				return nil, failure(Canceled, next.String(), err)
			}
		}
	}
}

// checked returns the header of the request, with our own fields.
func (w *walk) checked() (http.Header, error) {
	if !httpguts.ValidHeaderFieldName(w.method) || w.method == http.MethodConnect {
		return nil, fmt.Errorf("method %.20q", w.method)
	}
	header := http.Header{"User-Agent": {w.f.o.UserAgent}, "Accept-Encoding": {body.Accepted}, "Accept": {"*/*"}}
	for name, values := range w.r.Header {
		canonical := http.CanonicalHeaderKey(name)
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("header %.80q has a name that HTTP does not allow", name)
		}
		if ofConnections[canonical] || strings.HasPrefix(canonical, "Proxy-") {
			return nil, fmt.Errorf("header %s cannot be chosen: it follows from URI, body and connection", canonical)
		}
		header[canonical] = nil
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("header %s has a value that HTTP does not allow", canonical)
			}
			header[canonical] = append(header[canonical], value)
		}
	}
	return header, nil
}

var ofConnections = map[string]bool{
	"Host": true, "Content-Length": true, "Transfer-Encoding": true, "Connection": true, "Keep-Alive": true, "Upgrade": true, "Te": true,
	"Trailer": true, "Expect": true, "Http2-Settings": true,
}

// request makes the next request to send. A redirect that came here before, with the same
// cookies, is a loop.
func (w *walk) request(ctx context.Context, proxied bool) (*http.Request, error) {
	to := w.at.URL(proxied)
	q := (&http.Request{
		Method: w.method, URL: to, Host: w.at.Authority(), Header: w.header.Clone(),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}).WithContext(ctx)
	if len(w.sent) > 0 {
		text := string(w.sent)
		q.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(text)), nil }
		q.Body, _ = q.GetBody()
		q.ContentLength = int64(len(text))
	}
	if user := w.at.User; user != nil && q.Header.Get("Authorization") == "" {
		password, _ := user.Password()
		q.SetBasicAuth(user.Username(), password)
	}
	if w.r.Jar != nil {
		addCookies(q, w.r.Jar.Cookies(to))
	}
	key := w.method + " " + w.at.String() + " " + q.Header.Get("Cookie")
	if w.seen[key] {
		return nil, &stop{RedirectLoop, fmt.Sprintf("after %d redirects", w.redirects)}
	}
	w.seen[key] = true
	return q, nil
}

// addCookies adds cookies that a server has set. They replace those of the same name that the
// caller sends.
func addCookies(q *http.Request, set []*http.Cookie) {
	if len(set) == 0 {
		return
	}
	sent := q.Cookies()
	q.Header.Del("Cookie")
	for _, cookie := range sent {
		if !slices.ContainsFunc(set, func(c *http.Cookie) bool { return c.Name == cookie.Name }) {
			q.AddCookie(cookie)
		}
	}
	for _, cookie := range set {
		q.AddCookie(cookie)
	}
}

// next returns where an answer redirects to; nil: it is the last one.
func (w *walk) next(answer *http.Response) (*uri.URI, *Error) {
	if w.r.Jar != nil {
		if cookies := answer.Cookies(); len(cookies) > 0 {
			w.r.Jar.SetCookies(w.at.URL(false), cookies)
		}
	}
	to := answer.Header.Get("Location")
	if to == "" || !Redirects(answer.StatusCode) || w.r.RedirectLimit < 0 {
		return nil, nil
	}
	if w.redirects == w.r.RedirectLimit {
		return nil, failure(TooManyRedirects, w.at.String(), fmt.Errorf("%d were followed", w.redirects))
	}
	next, err := w.at.Resolve(to)
	if err != nil {
		return nil, failure(BadRedirect, w.at.String(), fmt.Errorf("to %.200q: %w", to, err))
	}
	return next, nil
}

// Redirects reports whether an answer with this status is to be followed to its Location.
func Redirects(status int) bool {
	switch status {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// oddity is what is wrong with an answer of a status below 400 that is the last one; nil: nothing.
func (w *walk) oddity(status int) *Error {
	asked := func(fields ...string) bool {
		return slices.ContainsFunc(fields, func(name string) bool { return w.header.Get(name) != "" })
	}
	switch {
	case Redirects(status) && w.r.RedirectLimit >= 0:
		return failure(BadRedirect, w.at.String(), fmt.Errorf("%w without a Location", statusError(status)))
	case status == http.StatusNotModified && !asked("If-None-Match", "If-Modified-Since"),
		status == http.StatusPartialContent && !asked("Range"):
		return failure(BadResponse, w.at.String(), fmt.Errorf("%w, which was not asked for", statusError(status)))
	}
	return nil
}

// leaves reports whether a redirect leads to another host, or from TLS to plain HTTP.
func (w *walk) leaves(next *uri.URI) bool {
	return next.Host != w.at.Host || next.Port != w.at.Port && next.Scheme == w.at.Scheme || next.Scheme == "http" && w.at.Scheme == "https"
}

// dropsBody reports whether a redirect is followed by a GET without a body (RFC 9110, 15.4).
func (w *walk) dropsBody(status int) bool {
	return status == http.StatusSeeOther && w.method != http.MethodHead ||
		(status == http.StatusMovedPermanently || status == http.StatusFound) && w.method == http.MethodPost
}

// crosses are the fields of a request that other hosts get over a redirect, too. All others may be secrets of the
// first host (Authorization, Cookie, X-Api-Key), or say what is done there (Referer, Origin, If-Match).
var crosses = map[string]bool{
	"User-Agent": true, "Accept": true, "Accept-Encoding": true, "Accept-Language": true, "Accept-Charset": true,
	"Content-Type": true, "Content-Encoding": true, "Content-Language": true, // of the body, which a redirect may send again
	"Cache-Control": true, "Pragma": true, "Range": true, "Dnt": true, "Save-Data": true, "Upgrade-Insecure-Requests": true,
}

// follow goes to the target of a redirect. What is meant for the first host goes only there, and never
// from TLS to plain HTTP.
func (w *walk) follow(status int, next *uri.URI) {
	w.redirects++
	if w.leaves(next) {
		maps.DeleteFunc(w.header, func(name string, _ []string) bool { return !crosses[name] })
	}
	if w.dropsBody(status) {
		w.method, w.sent = http.MethodGet, nil
		w.header.Del("Content-Type")
		w.header.Del("Content-Encoding")
		w.header.Del("Origin")
	}
	w.at = next
}

// finish reads the body of the last answer.
func (w *walk) finish(h *hop, answer *http.Response) (*Response, *Error) {
	kept, err := h.read(answer)
	if err != nil {
		return nil, err
	}
	r := &Response{
		URI: w.at.String(), Status: answer.StatusCode, Header: answer.Header, ContentType: answer.Header.Get("Content-Type"),
		Body: kept, Remote: h.remote(), odd: w.oddity(answer.StatusCode),
	}
	r.After, _ = RetryAfter(answer.Header.Get("Retry-After"), w.f.o.Now())
	return r, nil
}
