package crawl

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/charset"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/links"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/pages"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

const (
	accept     = "text/html,application/xhtml+xml,*/*;q=0.8"
	robotsIn   = 30 * time.Second // how long fetching a robots.txt may take
	firstPause = time.Second      // before the second attempt, then twice as long each time
)

// Reasons not to follow a redirect.
var (
	errSeen  = errors.New("the redirect leads to a URI that has been seen")
	errScope = errors.New("the redirect leads out of the scope")
	errTrap  = errors.New("the redirect leads to a URI that is beyond the bounds")
	errEnds  = errors.New("the redirect leads to a URI that would end the session")
)

// errForbidden is for a URI that robots.txt forbids.
var errForbidden = errors.New("robots.txt of the host forbids it")

// visit fetches the leased URI. It returns an error only of this machine, or of ctx; everything
// that a host can do is a result. If the host cannot be had at present, it returns what to do instead.
func (c *Crawl) visit(ctx context.Context, l *frontier.Lease) (frontier.Result, *postponed, error) {
	r, err := c.fetchPage(ctx, l)
	if err == nil || context.Cause(ctx) != nil {
		return r, nil, err
	}
	if wrong := (*fetch.Error)(nil); errors.As(err, &wrong) && wrong.Reason == fetch.Canceled {
		err = wrong.Err // of before, which a redirect has to pass
	}
	if later := c.unreached(l, err); later != nil {
		return r, later, nil
	}
	r, err = c.failed(l, err)
	return r, nil, err
}

// fetchPage fetches the leased URI, and stores its page.
func (c *Crawl) fetchPage(ctx context.Context, l *frontier.Lease) (frontier.Result, error) {
	at, err := uri.Parse(l.URI)
	if err != nil { // an older version accepted it
		return frontier.Result{Failure: &frontier.Failure{Reason: string(fetch.BadURI), Text: err.Error(), Permanent: true}}, nil
	}
	if err := c.allowed(ctx, at); err != nil {
		return frontier.Result{}, err
	}
	var r frontier.Result
	began := time.Now()
	answer, err := c.fetcher.Fetch(ctx, fetch.Request{
		URI: l.URI, Jar: c.jar, Whole: c.Setting.Timeout, Read: min(c.Setting.Timeout, 30*time.Second), BodyLimit: c.Setting.MaxBytes,
		Header: http.Header{"Accept": {accept}},
		Before: func(ctx context.Context, to string) error { return c.before(ctx, l, &r, to) },
		Again:  c.turn,
		Passed: c.archivePassed(),
	})
	c.speed.took(l.Host, time.Since(began))
	switch {
	case errors.Is(err, errSeen), errors.Is(err, errScope), errors.Is(err, errTrap), errors.Is(err, errEnds):
		to := r.Redirects[len(r.Redirects)-1].URI
		c.log.Info("not followed", "uri", l.URI, "to", to, "why", err)
		switch {
		case errors.Is(err, errEnds):
			r.Skipped = map[string]int64{"session": 1}
		case !errors.Is(err, errSeen):
			r.Skipped = map[string]int64{"redirect": 1}
		}
		if errors.Is(err, errScope) && seed(l) {
			c.ledAway.CompareAndSwap(nil, &Redirect{l.URI, to})
		}
		return r, nil
	case err != nil:
		return frontier.Result{}, err
	}
	c.away.reached(l.Origin())
	defer answer.Body.Close() //nolint:errcheck // it was read, or there is an error already
	if answer.Status < 200 || answer.Status > 299 || answer.Status == http.StatusNoContent || answer.Status == http.StatusResetContent || answer.Failure() != nil {
		return c.refused(l, answer), c.archiveOther(answer)
	}
	return r, c.keep(answer, &r)
}

// before decides whether a redirect is followed.
func (c *Crawl) before(ctx context.Context, l *frontier.Lease, r *frontier.Result, to string) error {
	next, err := uri.Parse(to)
	if err != nil {
		return err
	}
	r.Redirects = append(r.Redirects, frontier.Target{URI: next.String(), Host: next.Name()})
	switch {
	case !c.scope.has(next) && !c.leadsHome(l, next):
		return errScope
	case c.Setting.trap(next) != "":
		return errTrap
	case c.session != nil && c.session.Avoided(next):
		return errEnds
	}
	ok, err := c.frontier.Claim(ctx, l, next.String(), next.Name())
	if err == nil && !ok {
		err = errSeen
	}
	if err == nil {
		err = c.turn(ctx, to) // also of its robots.txt
	}
	if err == nil {
		err = c.allowed(ctx, next)
	}
	return err
}

// seed reports whether a lease is of a seed.
func seed(l *frontier.Lease) bool { return l.Depth == 0 && l.Referrer == "" }

// leadsHome reports whether a seed redirects to the other name of its site, which then belongs to the crawl.
func (c *Crawl) leadsHome(l *frontier.Lease, to *uri.URI) bool {
	from, err := uri.Parse(l.URI)
	return err == nil && seed(l) && c.scope.widen(from, to) && c.scope.has(to)
}

func (c *Crawl) turn(ctx context.Context, to string) error {
	u, err := uri.Parse(to)
	if err != nil {
		return err
	}
	return c.frontier.Turn(ctx, u.Name())
}

// failed is the result of an attempt without an answer.
func (c *Crawl) failed(l *frontier.Lease, err error) (frontier.Result, error) {
	f := &frontier.Failure{Reason: "robots", Text: err.Error(), Permanent: true}
	var wrong *fetch.Error
	switch no := (*unavailable)(nil); {
	case errors.As(err, &no): // of a host to which a redirect leads
		f.Reason, f.Permanent, f.After = "robots_unreachable", false, c.pause(l, no.after)
	case errors.Is(err, errForbidden):
	case errors.As(err, &wrong) && wrong.Reason == fetch.Storage:
		return frontier.Result{}, fmt.Errorf("%s: %w", l.URI, err)
	case errors.As(err, &wrong):
		f.Reason, f.Permanent, f.After = string(wrong.Reason), wrong.Permanent, c.pause(l, wrong.After)
		if at, parsed := uri.Parse(wrong.URI); parsed == nil && !wrong.Permanent && wrong.Reason.Away() {
			c.frontier.Hold(at.Name(), firstPause)
		}
	default:
		return frontier.Result{}, err
	}
	return frontier.Result{Failure: f}, nil
}

// pause is how long a URI waits for its next attempt.
func (c *Crawl) pause(l *frontier.Lease, told time.Duration) time.Duration {
	return min(max(firstPause<<min(l.Attempts, 20), told), frontier.LongestPause)
}

// refused is the result of an answer that is not a page.
func (c *Crawl) refused(l *frontier.Lease, answer *fetch.Response) frontier.Result {
	f := &frontier.Failure{Reason: fmt.Sprintf("http_%d", answer.Status), Text: fmt.Sprintf("%s: the host answered with status %d", answer.URI, answer.Status), Permanent: true, Data: answer.Status}
	if wrong := answer.Failure(); wrong != nil {
		f.Permanent, f.After = wrong.Permanent, c.pause(l, wrong.After)
		at, err := uri.Parse(answer.URI) // perhaps of a host to which a redirect has led
		if err == nil && (answer.Status == http.StatusTooManyRequests || answer.Status == http.StatusServiceUnavailable) {
			c.frontier.Hold(at.Name(), f.After)
		}
	}
	return frontier.Result{Failure: f}
}

// keep stores the page of an answer, and finds its links.
func (c *Crawl) keep(answer *fetch.Response, r *frontier.Result) error {
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	at, err := uri.Parse(answer.URI)
	if err != nil {
		return err
	}
	kind := answer.ContentType
	if kind == "" {
		kind = http.DetectContentType(body[:min(len(body), 512)])
	}
	record := pages.Record{Final: at.String(), Status: answer.Status, ContentType: answer.ContentType}
	text, encoding := body, ""
	if pages.IsText(kind) {
		read := charset.Decode(body, answer.ContentType)
		text, encoding = read.Text, read.Query()
		record.Declared, record.Detected, record.Encoding, record.Replaced = read.Declared, read.Detected, read.Used, read.Replaced
		if read.Replaced > 0 || read.Mismatch() {
			c.log.Warn("encoding uncertain", "uri", at.String(), "declared", read.Declared, "detected", read.Detected, "used", read.Used, "replaced", read.Replaced)
		}
	}
	sum := sha256.Sum256(text)
	record.File, record.Bytes, record.SHA256 = pages.Name(at, kind), len(text), hex.EncodeToString(sum[:])
	if err := c.folder.Write(record.File, text); err != nil {
		return err
	}
	headed := answer.Header.Values("Refresh") != nil || answer.Header.Values("X-Robots-Tag") != nil
	if html := pages.IsHTML(kind); html || headed {
		if !html {
			text = nil // only what the header says
		}
		record.NoIndex = c.follow(text, at, answer, encoding, r)
	}
	data := page{record: record}
	if c.Setting.WARC {
		if data.encoded, err = c.archived(answer, body); err != nil {
			return err
		}
	}
	r.Page = &frontier.Page{File: record.File, Hash: sum[:], Size: int64(record.Bytes), Data: data}
	return nil
}

// follow adds the links of a page, and counts those that are not followed. It reports whether the page asks
// not to be shown in search results.
func (c *Crawl) follow(text []byte, at *uri.URI, answer *fetch.Response, encoding string, r *frontier.Result) (noIndex bool) {
	found := links.Extract(text, at, links.Options{Images: c.Setting.Images, Longest: c.Setting.MaxURI, Encoding: encoding, Agent: product, Robots: answer.Header.Values("X-Robots-Tag"),
		Refresh: answer.Header.Values("Refresh")})
	r.Skipped = map[string]int64{}
	skip := func(why string, n int) {
		if n > 0 {
			r.Skipped[why] += int64(n)
		}
	}
	skip("invalid", found.Invalid)
	skip("long", found.Long)
	skip("too_many", found.Cut)
	for _, n := range found.Schemes {
		skip("scheme", n)
	}
	for _, one := range found.Links {
		link := frontier.Link{URI: one.URI.String(), Host: one.URI.Name(), Data: anchor{one.Text, one.Rel}}
		why := c.Setting.trap(one.URI)
		switch {
		case !c.scope.has(one.URI):
			why = "scope"
		case one.NoFollow:
			why = "nofollow"
		case c.session != nil && c.session.Avoided(one.URI):
			why = "session"
		}
		if link.Queue = why == ""; !link.Queue {
			skip(why, 1)
		}
		r.Links = append(r.Links, link)
	}
	return found.NoIndex
}

// allowed returns an error for a URI that robots.txt forbids. If the host was called for
// robots.txt just now, by whatever thread, allowed waits for a turn of the host: all that waited
// for a robots.txt would else be sent at once when it comes.
func (c *Crawl) allowed(ctx context.Context, u *uri.URI) error {
	if !c.Setting.Robots {
		return nil
	}
	verdict, err := c.robots.Ask(ctx, u.Origin(), u.Path, c.fetchRobots)
	switch {
	case err != nil:
		return err
	case verdict.Unreachable != nil: // permanently, see fetchRobots
		if errors.As(verdict.Unreachable, new(*fetch.Error)) {
			return verdict.Unreachable
		}
		return &unavailable{at: u, err: verdict.Unreachable}
	case !verdict.Allowed:
		return errForbidden
	}
	if verdict.Delay > 0 || verdict.Fetched {
		c.frontier.Delay(u.Name(), u.Origin(), min(verdict.Delay, frontier.LongestPause))
	}
	if verdict.Fetched || verdict.Waited {
		return c.frontier.Turn(ctx, u.Name())
	}
	return nil
}

// fetchRobots fetches a robots.txt. One that cannot be had at present is not remembered, so that it is tried as pages are.
func (c *Crawl) fetchRobots(ctx context.Context, origin string) (robots.Answer, error) {
	at, err := uri.Parse(origin + "/robots.txt")
	if err != nil {
		return robots.Answer{}, err
	}
	r, err := c.fetcher.Fetch(ctx, fetch.Request{
		URI: at.String(), Whole: robotsIn, BodyLimit: robots.MaxBytes, Truncate: true, RedirectLimit: robots.MaxRedirects,
		Before: c.turn, Again: c.turn,
		Passed: c.archivePassed(),
	})
	var wrong *fetch.Error
	switch {
	case errors.As(err, &wrong) && slices.Contains([]fetch.Reason{fetch.TooManyRedirects, fetch.RedirectLoop, fetch.BadRedirect}, wrong.Reason):
		return robots.Answer{Status: http.StatusNotFound}, nil
	case errors.As(err, &wrong) && wrong.Permanent && wrong.URI == at.String():
		return robots.Answer{}, err // that any page of the host would get, too: it is remembered
	case errors.As(err, &wrong) && wrong.Reason == fetch.Storage:
		return robots.Answer{}, &robots.Withheld{Err: err}
	case errors.As(err, &wrong):
		return robots.Answer{}, &robots.Withheld{Err: &unavailable{at, wrong.After, wrong}}
	case err != nil:
		return robots.Answer{}, err
	}
	text, err := io.ReadAll(r.Body)
	if err == nil {
		if err = c.archiveText(r, text); err != nil { // of this machine, not of the host
			err = &robots.Withheld{Err: err}
		}
	}
	if err == nil && robots.Unavailable(r.Status) {
		no := &unavailable{at: at, err: fmt.Errorf("it was answered with status %d", r.Status)}
		if wrong := r.Failure(); wrong != nil {
			no.after = wrong.After
		}
		err = &robots.Withheld{Err: no}
	}
	return robots.Answer{Status: r.Status, Text: text}, errors.Join(err, r.Body.Close())
}
