package browserengine

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/browser/devtools"
	"github.com/cr-clawer/urifilter/daemon/internal/download/httpengine"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	uris "github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// wanted are the kinds of requests that are sent: those that may affect the document. Requests
// for images, videos, fonts, event streams, and those that serve only others, are not sent.
var wanted = []string{"Document", "Stylesheet", "Script", "XHR", "Fetch", "Preflight", "Other"}

// maxPost is the longest body of a request, in bytes; those of all requests of a page may have MaxLoaded.
const maxPost = 1 << 20

// request handles a waiting request. The reading goroutine calls it.
func (v *visit) request(session string, p *paused, main bool) {
	v.mu.Lock()
	loader := v.loader
	v.made++
	refused := v.over || v.err != nil || v.made > MaxRequests || !slices.Contains(wanted, p.Type)
	if !refused {
		v.requests.Add(1)
		v.running++
	}
	v.boundPost(p)
	if main {
		v.documents++
	}
	tooMany := v.documents > MaxDocuments
	v.mu.Unlock()
	if refused {
		go v.refuse(session, p, "BlockedByClient")
		return
	}
	go func() {
		defer v.requests.Done()
		defer v.update(func() { v.running-- })
		var err error
		switch {
		case main && tooMany:
			wrong := worker.Failed(string(fetch.TooManyRedirects), "%s: more documents than %d, one after the other", p.Request.URL, MaxDocuments)
			wrong.Permanent = true
			err = wrong
		default:
			err = v.answer(session, p, main, loader)
		}
		if err == nil {
			return
		}
		if main {
			v.fail(err)
		}
		v.refuse(session, p, reasonOf(err))
	}()
}

// boundPost drops a body beyond the bounds, so that no request is held with it until its turn; requestOf refuses what has
// none. v.mu is held.
func (v *visit) boundPost(p *paused) {
	var n int64
	for _, part := range p.Request.Post {
		n += int64(len(part.Bytes))
	}
	if v.posted += n; n > maxPost || v.posted > MaxLoaded {
		v.posted -= n
		p.Request.HasPost, p.Request.Post = true, nil
	}
}

// refuse makes a request fail.
func (v *visit) refuse(session string, p *paused, why string) {
	_ = v.b.conn.Tell(session, "Fetch.failRequest", object{"requestId": p.ID, "errorReason": why}) // else the page is gone
}

// reasonOf is the reason that a page sees for a failed request.
func reasonOf(err error) string {
	var f *worker.Failure
	switch {
	case errors.Is(err, errOver):
		return "Aborted"
	case !errors.As(err, &f):
		return "Failed"
	}
	switch word, _, _ := strings.Cut(f.Reason, ":"); {
	case word == "robots" || strings.HasPrefix(word, "refused_"):
		return "AccessDenied"
	case strings.HasPrefix(word, "timeout"):
		return "TimedOut"
	case strings.HasPrefix(word, "dns"):
		return "NameNotResolved"
	}
	return "ConnectionFailed"
}

// errOver means that the body is kept as it came, and there is nothing to show.
var errOver = errors.New("not shown")

// answer sends a request, and passes the answer to the browser. The main document may have to
// wait for its host's turn; its resources are fetched as any browser does, some at once.
func (v *visit) answer(session string, p *paused, isMain bool, loader string) error {
	to, err := uris.Parse(p.Request.URL)
	if err != nil {
		return worker.Failed(string(fetch.BadURI), "%.200q: %v", p.Request.URL, err)
	}
	own := download.HostOf(to.String()) == v.host
	places := v.places.other
	if own {
		places = v.places.own
	}
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-v.ctx.Done():
		return v.ctx.Err()
	}
	if isMain && v.isFurther() {
		if err := v.w.Turn(v.ctx, to.String()); err != nil {
			return err
		}
	}
	r, err := v.requestOf(p, to, isMain, own)
	if err != nil {
		return err
	}
	answer, err := v.e.o.HTTP.Fetch(v.ctx, v.w, r)
	if err != nil {
		return err
	}
	var shown *main
	if isMain {
		if shown, err = v.document(p, answer, loader); err != nil {
			return errors.Join(err, answer.Body.Close())
		}
		if shown == nil {
			return nil
		}
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxBody+1))
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		return err
	}
	v.mu.Lock()
	v.bytes += int64(len(text))
	tooMuch := v.bytes > MaxLoaded
	v.mu.Unlock()
	switch {
	case tooMuch:
		wrong := v.tooLarge("the page, with all that it consists of,")
		v.fail(wrong)
		return wrong
	case len(text) > MaxBody:
		return v.tooLarge("the document")
	}
	f := fulfil{ID: p.ID, Code: answer.Status, Phrase: http.StatusText(answer.Status), Headers: fieldsOf(answer.Header), Body: text}
	if f.Phrase == "" {
		f.Phrase = "Unknown"
	}
	err = v.b.conn.Call(v.ctx, session, "Fetch.fulfillRequest", f, nil)
	var refused *devtools.Error
	if !errors.As(err, &refused) || v.b.conn.Call(v.ctx, session, "Fetch.failRequest", object{"requestId": p.ID, "errorReason": "Failed"}, nil) == nil {
		return err
	}
	v.update(func() {
		if shown != nil && v.main == shown { // the page does not want it any more, and stays as it was
			v.main = shown.before
		}
	})
	return nil
}

// isFurther reports whether a main document is not the first; the first has its turn already.
func (v *visit) isFurther() bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.documents > 1
}

// document handles the answer to the request for the page. If it is not to be shown, the visit
// ends: it is an error, or it is not HTML. Then its body is kept, and nil is returned.
func (v *visit) document(p *paused, answer *fetch.Response, loader string) (shown *main, err error) {
	if wrong := answer.Failure(); wrong != nil {
		return nil, httpengine.FailureOf(wrong, answer.Status)
	}
	m := &main{result: httpengine.ResultOf(answer), loader: loader}
	to := answer.Header.Get("Location")
	redirect := answer.Status >= 300 && to != ""
	if fetch.Redirects(answer.Status) && to == "" {
		f := worker.Failed(string(fetch.BadRedirect), "%s: status %d without a Location", answer.URI, answer.Status)
		f.Permanent = true
		return nil, f
	}
	if at, err := uris.Parse(answer.URI); redirect && err == nil {
		if _, err := at.Resolve(to); err != nil { // the browser would stay on its page
			f := worker.Failed(string(fetch.BadRedirect), "%s: leads to %.200q: %v", answer.URI, to, err)
			f.Permanent = true
			return nil, f
		}
	}
	kept := !redirect && (!isHTML(answer) || answer.Status == http.StatusNoContent || answer.Status == http.StatusResetContent)
	if kept {
		if v.w.Job.Setting.Script != "" {
			f := worker.Failed("script", "%s: download_js needs a page, and this is %.100q", answer.URI, answer.ContentType)
			f.Permanent = true
			return nil, f
		}
		m.asIs = answer.Body
	}
	v.update(func() {
		if v.main != nil && v.main.asIs != nil {
			_ = v.main.asIs.Close() // another one has come meanwhile
			v.main.asIs = nil
		}
		m.before, v.main = v.main, m
	})
	if kept {
		v.refuse(v.session, p, "Aborted")
		return nil, nil
	}
	return m, nil
}

// isHTML reports whether a browser shows an answer as a document with scripts.
func isHTML(answer *fetch.Response) bool {
	kind, _, err := mime.ParseMediaType(answer.ContentType)
	if err != nil {
		kind, _, _ = strings.Cut(answer.ContentType, ";")
		kind = strings.ToLower(strings.TrimSpace(kind))
	}
	attachment := strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer.Header.Get("Content-Disposition"))), "attachment")
	return !attachment && slices.Contains([]string{"", "text/html", "application/xhtml+xml"}, kind)
}

// fieldsOf returns the header of an answer as the browser gets it, with the body decompressed.
func fieldsOf(h http.Header) []field {
	var fields []field
	for name, values := range h {
		if slices.Contains([]string{"Content-Encoding", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Alt-Svc", "Trailer"}, name) {
			continue
		}
		for _, value := range values {
			fields = append(fields, field{name, strings.ToValidUTF8(value, "\uFFFD")})
		}
	}
	return fields
}

// requestOf converts a request of the browser to the one that is sent.
func (v *visit) requestOf(p *paused, to *uris.URI, isMain, own bool) (httpengine.Request, error) {
	s := v.w.Job.Setting
	r := httpengine.Request{URI: to.String(), Method: p.Request.Method, Header: http.Header{}, Single: true, Part: !isMain, BodyLimit: min(s.MaxBytes, MaxBody)}
	if isMain {
		r.BodyLimit = s.MaxBytes // it may not be HTML
	}
	for name, value := range p.Request.Headers {
		if name = http.CanonicalHeaderKey(name); !notSent(name) {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set("User-Agent", v.agent)
	sent := r.Header.Get("Cookie")
	if own {
		for name, value := range s.Headers {
			if isMain || r.Header.Get(name) == "" {
				r.Header.Set(name, value)
			}
		}
		sent = joinCookies(s.Cookie, sent)
	}
	r.Header.Del("Cookie")
	if sent != "" {
		r.Header.Set("Cookie", sent)
	}
	r.Jar = v.jar(to, isMain, sent)
	for _, part := range p.Request.Post {
		r.Body = append(r.Body, part.Bytes...)
	}
	if p.Request.HasPost && len(r.Body) == 0 {
		return r, worker.Failed(string(fetch.BadRequest), "%s: its body is longer than %d bytes, or is a file, or the page has sent %d", r.URI, maxPost, MaxLoaded)
	}
	return r, nil
}

// notSent are the headers that follow from how the worker sends a request, or that reveal a browser
// other than the agent's name does.
func notSent(name string) bool {
	return slices.Contains([]string{
		"Host", "Connection", "Keep-Alive", "Content-Length", "Transfer-Encoding", "Te", "Trailer", "Upgrade", "Expect", "Http2-Settings", "Accept-Encoding",
	}, name) || strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Sec-Ch-")
}
