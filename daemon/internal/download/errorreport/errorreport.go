// Package errorreport sends logged errors to a service that speaks Sentry's protocol, which its DSN
// names. It stands in front of the log, which still gets everything. It sends no bodies, and no
// credentials or queries of URIs.
package errorreport

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/getsentry/sentry-go"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

const (
	// sameEvery is how often an event with the same message is sent; those in between are only counted.
	sameEvery = time.Minute
	// maxAnHour is the most events that are sent in an hour.
	maxAnHour = 100
	// sendIn bounds one call of the service.
	sendIn = 10 * time.Second
	// closeIn is the default of Options.CloseIn.
	closeIn = 3 * time.Second
)

// Options say where errors are sent. DSN must be given.
type Options struct {
	DSN     string
	Release string        // of the program
	Role    string        // of the process
	CloseIn time.Duration // how long Close may take; 0: 3 s
	Now     func() time.Time
}

// Reporter sends events. Its methods may be called by several goroutines.
type Reporter struct {
	opt    Options
	client *sentry.Client

	mu   sync.Mutex
	same map[string]*same // by message, which are constants of the program
	hour time.Time        // when the present hour began
	sent int              // in this hour
	done bool             // closed
}

type same struct {
	next    time.Time // the earliest time of the next one
	skipped int       // events that were not sent since the last one
}

// Place is the service that a DSN names, without the key.
func Place(dsn string) string {
	u, err := url.Parse(dsn)
	if err != nil || u.Host == "" {
		return "not a URL"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String()
}

// New makes a Reporter. It connects to nobody yet.
func New(opt Options) (*Reporter, error) {
	if opt.Now == nil {
		opt.Now = time.Now
	}
	opt.CloseIn = cmp.Or(opt.CloseIn, closeIn)
	if opt.Release == "" {
		opt.Release = "unknown" // or the library would look for a repository
	}
	r := &Reporter{opt: opt, same: map[string]*same{}}
	// Reports are rare: by the next one, a connection may be forgotten on its way, and the service elsewhere.
	transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: guard.ForSettings().Dialer().DialContext, TLSHandshakeTimeout: sendIn, DisableKeepAlives: true}
	client, err := sentry.NewClient(sentry.ClientOptions{
		Dsn: opt.DSN, Release: opt.Release, Tags: map[string]string{"role": opt.Role},
		HTTPClient:   &http.Client{Transport: transport, Timeout: sendIn, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		Integrations: func([]sentry.Integration) []sentry.Integration { return nil }, // no source texts, no lists of modules
		// Send events one by one, so that Close can wait for them.
		DisableTelemetryBuffer: true, DisableClientReports: true,
	})
	if err != nil { // its text contains the DSN
		return nil, fmt.Errorf("no DSN of an error service: %s", Place(opt.DSN))
	}
	r.client = client
	return r, nil
}

// Handler returns a log that also sends records of level error, and warnings with an error or a panic.
func (r *Reporter) Handler(log slog.Handler) slog.Handler { return handler{log, r, nil} }

// Tell sends an error that is not logged here.
func (r *Reporter) Tell(message string, err error) {
	record := slog.NewRecord(r.opt.Now(), slog.LevelError, message, 0)
	record.Add("err", err)
	_ = r.Handler(slog.DiscardHandler).Handle(context.Background(), record) // never fails
}

// Close sends waiting events, for Options.CloseIn at most. Later records are not sent.
func (r *Reporter) Close() {
	r.mu.Lock()
	r.done = true
	r.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), r.opt.CloseIn)
	defer cancel()
	r.client.FlushWithContext(ctx)
	r.client.Close()
}

// due reports whether an event is to be sent, and how many of the same message were skipped.
func (r *Reporter) due(message string) (skipped int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.opt.Now()
	s := r.same[message]
	if s == nil {
		s = &same{}
		r.same[message] = s
	}
	if now.Sub(r.hour) >= time.Hour {
		r.hour, r.sent = now, 0
	}
	if r.done || now.Before(s.next) || r.sent >= maxAnHour {
		s.skipped++
		return 0, false
	}
	skipped = s.skipped
	s.next, s.skipped = now.Add(sameEvery), 0
	r.sent++
	return skipped, true
}

// handler is a log behind the reporter.
type handler struct {
	slog.Handler
	r     *Reporter
	attrs []slog.Attr
}

// Handle implements slog.Handler.
func (h handler) Handle(ctx context.Context, record slog.Record) error {
	attrs := h.attrs
	record.Attrs(func(a slog.Attr) bool { attrs = append(attrs[:len(attrs):len(attrs)], a); return true })
	if event := eventOf(record, attrs); event != nil {
		if skipped, ok := h.r.due(record.Message); ok {
			if skipped > 0 {
				event.Tags["not_sent"] = fmt.Sprint(skipped)
			}
			event.Tags["role"] = h.r.opt.Role
			h.r.client.CaptureEvent(event, nil, nil)
		}
	}
	return h.Handler.Handle(ctx, record)
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.r, append(h.attrs[:len(h.attrs):len(h.attrs)], attrs...)}
}

// WithGroup implements slog.Handler. Attributes in a group are not sent.
func (h handler) WithGroup(name string) slog.Handler { return h.Handler.WithGroup(name) }

// maxText is how many bytes of a value are sent.
const maxText = 500

// keys are the only attributes of the log that are sent.
var keys = []string{"err", "panic", "job", "worker", "call", "status", "code", "tries", "failed", "redis"}

// eventOf returns the event of a record, nil if there is none: only errors and some warnings have one.
func eventOf(record slog.Record, attrs []slog.Attr) *sentry.Event {
	event := sentry.NewEvent()
	event.Timestamp, event.Level = record.Time, sentry.LevelError
	event.Tags = map[string]string{}
	var cause string
	panicked := false
	for _, a := range attrs {
		if !slices.Contains(keys, a.Key) {
			continue
		}
		text := Scrubbed(a.Value.Resolve().String())
		switch a.Key {
		case "err", "panic":
			cause, panicked = text, a.Key == "panic"
		default:
			event.Tags[a.Key] = text
		}
	}
	switch {
	case record.Level < slog.LevelWarn, record.Level < slog.LevelError && cause == "":
		return nil
	case record.Level < slog.LevelError:
		event.Level = sentry.LevelWarning
	case panicked:
		event.Level = sentry.LevelFatal
	}
	event.Message = record.Message
	event.Fingerprint = []string{record.Message, "{{ type }}"}
	exception := sentry.Exception{Type: record.Message, Value: cause}
	if panicked { // the stack of the panic is still there when recovering code logs
		exception.Stacktrace = sentry.NewStacktrace()
	}
	event.Exception = []sentry.Exception{exception}
	return event
}

var (
	credentials = regexp.MustCompile(`://[^/\s"'@]*@`)
	queries     = regexp.MustCompile(`(://[^\s"'?#]*)[?#][^\s"']*`)
	cookies     = regexp.MustCompile(`(?i)\b((?:set-)?cookie["']?\s*[:=]\s*["']?)[^"'\n]*`)
	secrets     = regexp.MustCompile(`(?i)\b((?:proxy-)?authorization|bearer|basic|[a-z_-]*token|password|passwd|secret|api[_-]?key|session(?:id)?)\b(["']?\s*[:= ]\s*["']?)(?:(?:bearer|basic)\s+)?[^\s"',]+`)
)

// Scrubbed returns a text without confidential parts: credentials and queries of URLs, values of
// cookies, tokens and passwords. It is cut to maxText bytes.
func Scrubbed(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	text = credentials.ReplaceAllString(text, "://xxxxx@")
	text = queries.ReplaceAllString(text, "$1?xxxxx")
	text = cookies.ReplaceAllString(text, "${1}xxxxx")
	text = secrets.ReplaceAllString(text, "$1${2}xxxxx")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "")
	}
	return text
}
