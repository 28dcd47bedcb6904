package errorreport

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// event has the checked parts of an event that was sent.
type event struct {
	Message   string            `json:"message"`
	Level     string            `json:"level"`
	Release   string            `json:"release"`
	Tags      map[string]string `json:"tags"`
	Exception []struct {
		Type, Value string
		Stacktrace  *struct {
			Frames []struct{ Function string }
		}
	} `json:"exception"`
}

// service decodes the envelopes that it receives: https://develop.sentry.dev/sdk/data-model/envelopes/
func service(t *testing.T) (dsn string, events <-chan event) {
	got := make(chan event, 1000)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		lines := bytes.SplitN(body, []byte("\n"), 3)
		var item struct {
			Type   string
			Length int
		}
		var e event
		switch {
		case r.URL.Path != "/base/api/42/envelope/" || !strings.Contains(r.Header.Get("X-Sentry-Auth"), "sentry_key=thekey"):
			t.Errorf("%s with %q", r.URL.Path, r.Header.Get("X-Sentry-Auth"))
		case len(lines) != 3 || json.Unmarshal(lines[1], &item) != nil || item.Type != "event" || item.Length > len(lines[2]):
			t.Errorf("an envelope of %d lines: %s", len(lines), body)
		case json.Unmarshal(lines[2][:item.Length], &e) != nil:
			t.Errorf("no event: %s", lines[2])
		default:
			got <- e
		}
		_, _ = io.WriteString(w, "{}")
	}))
	t.Cleanup(server.Close)
	return strings.Replace(server.URL, "://", "://thekey@", 1) + "/base/42", got
}

func newReporter(t *testing.T, o Options) (*Reporter, *slog.Logger, *bytes.Buffer) {
	t.Helper()
	if o.CloseIn == 0 {
		o.CloseIn = time.Minute // a busy machine sends slowly
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	return r, slog.New(r.Handler(slog.NewTextHandler(&text, nil))), &text
}

// all returns the events that came until the reporter was closed.
func all(r *Reporter, events <-chan event) (got []event) {
	r.Close()
	for {
		select {
		case e := <-events:
			got = append(got, e)
		default:
			return got
		}
	}
}

func TestEvents(t *testing.T) {
	t.Parallel()
	dsn, events := service(t)
	r, log, text := newReporter(t, Options{DSN: dsn, Release: "p@1", Role: "worker"})
	log.Info("not this one", "err", "x")
	log.Warn("nor this one", "shards", 3)
	log.With("worker", "w1").Warn("store did not take a call", "call", "lease", "err", errors.New("dial http://u:pw@db:1/x?token=abc: refused"), "body", "of an item")
	func() {
		defer func() {
			if p := recover(); p != nil {
				log.Error("download panicked", "job", "news", "panic", p, "stack", "not sent as text")
			}
		}()
		panics()
	}()
	r.Tell("program ends", errors.New("disk is full"))
	got := all(r, events)
	log.Error("after the end")
	if len(got) != 3 {
		t.Fatalf("%d events: %+v", len(got), got)
	}
	for i, want := range []event{
		{Message: "store did not take a call", Level: "warning", Tags: map[string]string{"worker": "w1", "call": "lease", "role": "worker"}},
		{Message: "download panicked", Level: "fatal", Tags: map[string]string{"job": "news", "role": "worker"}},
		{Message: "program ends", Level: "error", Tags: map[string]string{"role": "worker"}},
	} {
		e := got[i]
		if e.Message != want.Message || e.Level != want.Level || e.Release != "p@1" || len(e.Exception) != 1 {
			t.Errorf("event %+v, want %+v", e, want)
		}
		for key, value := range want.Tags {
			if e.Tags[key] != value {
				t.Errorf("%s: %s is %q, want %q", e.Message, key, e.Tags[key], value)
			}
		}
		if len(e.Tags) != len(want.Tags) {
			t.Errorf("%s: tags %v, want %v", e.Message, e.Tags, want.Tags)
		}
	}
	for i, want := range []string{"dial http://xxxxx@db:1/x?xxxxx refused", "as asked", "disk is full"} {
		if value := got[i].Exception[0].Value; value != want {
			t.Errorf("%s: %q, want %q", got[i].Message, value, want)
		}
	}
	found := false
	for _, f := range got[1].Exception[0].Stacktrace.Frames {
		found = found || f.Function == "panics"
	}
	if !found || got[0].Exception[0].Stacktrace != nil {
		t.Errorf("stack of the panic: %+v", got[1].Exception[0].Stacktrace)
	}
	if n := strings.Count(text.String(), "\n"); n != 5 {
		t.Errorf("the log has %d lines, want 5: %s", n, text)
	}
}

func panics() { panic("as asked") }

// The same event is sent once a minute, and at most so many an hour; skipped ones are counted.
func TestLimits(t *testing.T) {
	t.Parallel()
	dsn, events := service(t)
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	r, log, _ := newReporter(t, Options{DSN: dsn, Now: func() time.Time { return now }})
	for range 50 {
		log.Error("a")
	}
	now = now.Add(sameEvery)
	log.Error("a")
	if _, ok := r.due("b"); !ok {
		t.Error("another message is not sent")
	}
	for range 2 * maxAnHour {
		now = now.Add(time.Nanosecond)
		_, _ = r.due(now.String())
	}
	if _, ok := r.due("c"); ok || r.sent != maxAnHour {
		t.Errorf("%d were sent in an hour", r.sent)
	}
	now = now.Add(time.Hour)
	if skipped, ok := r.due("c"); !ok || skipped != 1 {
		t.Errorf("an hour later %v, %d skipped", ok, skipped)
	}
	got := all(r, events)
	if len(got) != 2 || got[0].Tags["not_sent"] != "" || got[1].Tags["not_sent"] != "49" {
		t.Errorf("got %+v", got)
	}
}

func TestScrubbed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"get https://a.example/p?q=1#x: no":          "get https://a.example/p?xxxxx no",
		"proxy socks5://u:p@h:1: refused":            "proxy socks5://xxxxx@h:1: refused",
		"Cookie: a=b; c=d":                           "Cookie: xxxxx",
		"Authorization: Bearer abc.def, then":        "Authorization: xxxxx, then",
		`{"access_token":"abc","x":1}`:               `{"access_token":"xxxxx","x":1}`,
		"password=geheim rest":                       "password=xxxxx rest",
		"tasks not handed out: database is locked":   "tasks not handed out: database is locked",
		"host a.example:80: connection reset \xff":   "host a.example:80: connection reset \uFFFD",
		strings.Repeat("ü", maxText):                 strings.Repeat("ü", maxText/2),
		"mongodb://user:pass@a:1,b:2/?authSource=ad": "mongodb://xxxxx@a:1,b:2/?xxxxx",
	} {
		if got := Scrubbed(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

// An invalid DSN is refused without showing its key. If its service does not answer, Close ends in time.
func TestBadServices(t *testing.T) {
	t.Parallel()
	for _, dsn := range []string{"https://thekey@host.example/", "https://thekey@/1", "thekey"} {
		if _, err := New(Options{DSN: dsn}); err == nil || strings.Contains(err.Error(), "thekey") {
			t.Errorf("%s: %v", dsn, err)
		}
	}
	hanging := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hanging:
		case <-r.Context().Done():
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(hanging) })
	r, log, _ := newReporter(t, Options{DSN: strings.Replace(server.URL, "://", "://thekey@", 1) + "/1", CloseIn: time.Second})
	for _, message := range []string{"a", "b", "c"} {
		log.Error(message)
	}
	began := time.Now()
	r.Close()
	if took := time.Since(began); took > time.Minute {
		t.Errorf("Close took %v", took)
	}
}

// A connection that is kept from one report to the next, hours later, may lead nowhere by then.
func TestConnectionsAreNotKept(t *testing.T) {
	t.Parallel()
	var made atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "{}")
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			made.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	r, log, _ := newReporter(t, Options{DSN: strings.Replace(server.URL, "://", "://thekey@", 1) + "/1"})
	for _, message := range []string{"a", "b", "c"} {
		log.Error(message)
		r.client.FlushWithContext(t.Context())
	}
	if r.Close(); made.Load() != 3 {
		t.Errorf("%d connections for 3 reports, want 3", made.Load())
	}
}
