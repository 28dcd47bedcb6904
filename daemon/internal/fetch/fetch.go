package fetch

import (
	"cmp"
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/body"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/clock"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/proxies"
)

// Options are those of a Fetcher. The zero value is ready for use.
type Options struct {
	Guard          *guard.Guard   // which addresses are allowed; nil: public ones only
	Resolver       *net.Resolver  // resolves names; nil: the system's
	Roots          *x509.CertPool // trusted authorities; nil: the system's
	UserAgent      string         // for requests that have none; "": uridownloader
	SpillDir       string         // for bodies that do not stay in memory; "": the system's folder of temporary files
	BodyMemory     int64          // bytes of one body that stay in memory; 0: 256 KiB
	Memory         int64          // bytes of memory for all bodies; 0: 256 MiB
	MaxHeaderBytes int64          // of one answer; 0: 256 KiB
	IdleConns      int            // idle connections that are kept, in total; 0: 512
	IdleTime       time.Duration  // how long they are kept; 0: 30 s
	Silence        time.Duration  // after which a connection of HTTP/2 is asked whether it still works, and for which an answer is waited; 0: 10 s
	Now            func() time.Time
	Log            *slog.Logger // of proxies that fail, and bodies for which there is no space; nil: nothing is logged
}

// Request is what is to be fetched, and what it may cost. Zero values mean the defaults.
type Request struct {
	URI           string
	Method        string         // "": GET
	Body          []byte         // is sent; redirects 307 and 308 send it again, 301, 302 and 303 are followed by GET
	OwnBody       bool           // a redirect that would send Body to another host, or unencrypted, is a BadRedirect
	Header        http.Header    // in addition to our own; it is not changed
	Jar           http.CookieJar // nil: no cookies but those in Header
	Proxies       *proxies.List  // nil: none
	Connect       time.Duration  // until the connection is ready, with DNS, proxy and TLS; 0: 10 s
	Read          time.Duration  // until the header has arrived, and between two parts of the body; 0: 30 s
	Whole         time.Duration  // for everything, with redirects, but not what Before and Again take; 0: 5 min
	BodyLimit     int64          // bytes, both as sent and decompressed; 0: 32 MiB
	Truncate      bool           // a longer body is cut there, which is no error
	RedirectLimit int            // 0: 10; below 0: redirects are not followed
	// Before, if not nil, is called before each redirect is followed. An error ends the walk, and
	// Fetch's error wraps it.
	Before func(ctx context.Context, uri string) error
	// Again, if not nil, is called before a request is sent a second time because the server had
	// closed a kept connection without an answer. Errors are as for Before. It is not known whether
	// the server has seen the first request.
	Again func(ctx context.Context, uri string) error
	// Passed, if not nil, is called with each redirect, before it is followed or refused.
	Passed  func(Passed)
	MinRate int64 // bytes of a body in a second, over RateWindow; 0: 100; below 0: any
}

// RateWindow is the time over which a body must keep the least rate.
const RateWindow = 30 * time.Second

// Response is an answer, whatever its status. Its body must be closed.
type Response struct {
	URI         string // that answered, after redirects
	Status      int
	Header      http.Header
	ContentType string
	Body        *body.Body    // decompressed
	Remote      string        // address and port of the server, or of the proxy
	After       time.Duration // from Retry-After, 0 if there is none

	odd *Error // what is wrong with a status below 400; nil: nothing
}

// Passed is an answer that redirects.
type Passed struct {
	URI    string
	Status int
	Header http.Header
	Body   []byte // decompressed, nil if it has more than 16 KiB
	Remote string // as of Response
}

// Failure returns the error that a status means, nil if it means none: those of 400 or more, a redirect
// that was to be followed and leads nowhere, and a 304 or 206 that was not asked for, by which a server
// answers another request. The body may be read in any case.
func (r *Response) Failure() *Error {
	if r.Status < 400 {
		return r.odd
	}
	e := failure(Status, r.URI, statusError(r.Status))
	e.Permanent, e.After = PermanentStatus(r.Status), r.After
	return e
}

// Fetcher fetches. Its methods may be called by several goroutines.
type Fetcher struct {
	o     Options
	guard *guard.Guard
	store *body.Store

	mu     sync.Mutex // guards the fields below
	routes map[string]*route
	oldest []string // their keys, oldest first
}

// New makes a Fetcher. Close it.
func New(o Options) *Fetcher {
	o.UserAgent = cmp.Or(o.UserAgent, "uridownloader")
	o.BodyMemory, o.Memory = cmp.Or(o.BodyMemory, 256<<10), cmp.Or(o.Memory, 256<<20)
	o.MaxHeaderBytes, o.IdleConns, o.IdleTime = cmp.Or(o.MaxHeaderBytes, 256<<10), cmp.Or(o.IdleConns, 512), cmp.Or(o.IdleTime, 30*time.Second)
	o.Silence = cmp.Or(o.Silence, 10*time.Second)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Resolver == nil {
		o.Resolver = net.DefaultResolver
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	f := &Fetcher{o: o, guard: o.Guard, store: body.NewStore(o.SpillDir, o.BodyMemory, o.Memory), routes: map[string]*route{}}
	if f.guard == nil {
		f.guard = guard.New(guard.Options{})
	}
	return f
}

// Close closes idle connections. Running requests continue.
func (f *Fetcher) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.routes {
		r.transport.CloseIdleConnections()
	}
}

// Held is how many bytes of memory open bodies hold.
func (f *Fetcher) Held() int64 { return f.store.Held() }

// Fetch fetches a URI. The error is always an *Error; an answer with any status is no error.
func (f *Fetcher) Fetch(ctx context.Context, r Request) (*Response, error) {
	w := newWalk(f, r)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w.whole = clock.Start(w.r.Whole, func() { cancel(&stop{Timeout, "longer than " + w.r.Whole.String()}) })
	defer w.whole.Stop()
	response, err := w.walk(ctx)
	if w.proxy != nil {
		f.judge(w.proxy, err)
	}
	if err != nil {
		if err.Reason == Storage {
			f.o.Log.Warn("body not kept", "err", err.Err)
		}
		return nil, err
	}
	return response, nil
}

// judge reports the outcome to a proxy.
func (f *Fetcher) judge(p *proxies.Proxy, err *Error) {
	switch {
	case err == nil || err.Reason == Status || err.Reason == ProxyTarget:
		p.Worked()
	case (err.Reason == Proxy || err.Reason == RefusedProxy) && !errors.Is(err, context.Canceled):
		f.o.Log.Warn("proxy failed", "proxy", p.String(), "err", err.Err)
		p.Failed(err.Err)
	}
}
