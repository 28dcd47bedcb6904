package report

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	netmail "net/mail"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/sqlite"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
)

// rig is a store with a job of two tasks: one is done and one has failed.
type rig struct {
	*testing.T
	store *sqlite.Store
	job   download.Job
	log   bytes.Buffer
}

func newRig(t *testing.T, mails ...string) *rig {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Dir: filepath.Join(t.TempDir(), "store")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{T: t, store: store}
	r.job, err = store.AddJob(t.Context(), download.Job{Name: "news", On: true, Setting: download.Setting{MaxAttempts: 1, Lane: download.Normal, ReportMails: mails}})
	r.need(err)
	_, err = store.AddTasks(t.Context(), r.job.ID, []download.NewTask{{URI: "http://a.example/"}, {URI: "http://b.example/"}})
	r.need(err)
	_, err = store.HandOut(t.Context(), r.job.ID, 2, 0, time.Hour)
	r.need(err)
	leases, err := store.Lease(t.Context(), download.Want{Owner: "w", Max: 2, For: time.Hour, Shards: []int{0}, Lanes: download.Lanes()})
	r.need(err)
	for _, l := range leases {
		if l.Task.URI == "http://a.example/" {
			r.need(store.Finish(t.Context(), l, download.Result{URI: l.Task.URI, Status: 200}, download.Attempt{Status: 200}))
		} else {
			r.need(store.Fail(t.Context(), l, download.Attempt{Status: 404, Reason: "status: http://b.example/: 404 Not Found"}, time.Time{}))
		}
	}
	return r
}

func (r *rig) need(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// run runs a reporter until the test ends, and waits for its end.
func (r *rig) run(o Options) *Reporter {
	o.Store, o.Log = r.store, slog.New(slog.NewTextHandler(&r.log, nil))
	reporter := New(o)
	ctx, cancel := context.WithCancel(r.Context())
	var running sync.WaitGroup
	running.Go(func() { reporter.Run(ctx) })
	r.Cleanup(running.Wait)
	r.Cleanup(cancel)
	return reporter
}

// reported waits until the job is marked as reported with so many tasks.
func (r *rig) reported(reporter *Reporter, tasks int) {
	r.Helper()
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		job, err := r.store.Job(r.Context(), "news")
		r.need(err)
		reporter.mu.Lock()
		left := len(reporter.tries)
		reporter.mu.Unlock()
		if job.Reported == tasks && left == 0 {
			return
		}
	}
	r.Fatal("not marked as reported after two minutes")
}

// hook is a webhook that answers with the given statuses, one per call, then 204.
type hook struct {
	*httptest.Server
	calls chan string
}

func newHook(t *testing.T, statuses ...int) *hook {
	h := &hook{calls: make(chan string, 100)}
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		h.calls <- fmt.Sprintf("%s %s %s %s", q.Method, q.Header.Get("Content-Type"), q.Header.Get("Authorization"), body)
		if len(statuses) == 0 {
			w.WriteHeader(http.StatusNoContent)
			return
		}
		http.Error(w, "not now", statuses[0])
		statuses = statuses[1:]
	}))
	t.Cleanup(h.Close)
	return h
}

func TestWebhook(t *testing.T) {
	t.Parallel()
	r, h := newRig(t, "nobody@example.com"), newHook(t)
	reporter := r.run(Options{Webhook: &Webhook{URL: h.URL, Token: "secret"}})
	for range 5 { // as each round of the dispatcher does
		reporter.Ended(r.job, 1, 1)
	}
	call := <-h.calls
	body, found := strings.CutPrefix(call, "POST application/json Bearer secret ")
	var got Report
	if err := json.Unmarshal([]byte(body), &got); !found || err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	if got.Event != "job_ended" || got.Job != "news" || got.Version != 1 || got.Tasks != (Tasks{1, 1}) || got.Time.IsZero() ||
		len(got.Reasons) != 1 || got.Reasons[0] != (Reason{"status", 1, "http://b.example/", "status: http://b.example/: 404 Not Found"}) {
		t.Errorf("%s", body)
	}
	r.reported(reporter, 2)
	reporter.Ended(r.job, 1, 1) // from a dispatcher that has read the job before it was marked
	r.reported(reporter, 2)
	_, err := r.store.AddTasks(t.Context(), r.job.ID, []download.NewTask{{URI: "http://c.example/"}})
	r.need(err)
	r.finish()
	reporter.Ended(r.job, 2, 1) // and after one more task
	r.reported(reporter, 3)
	<-h.calls
	if len(h.calls) != 0 {
		t.Errorf("called again: %s", <-h.calls)
	}
}

// A failed report is sent again, with growing pauses, but not to those who have received it.
func TestReportIsSentAgain(t *testing.T) {
	t.Parallel()
	now, mu := time.Unix(1e9, 0), sync.Mutex{}
	clock := func() time.Time { mu.Lock(); defer mu.Unlock(); return now }
	s := newServer(t, "none")
	r, h := newRig(t, "a@example.com"), newHook(t, 500, http.StatusFound)
	reporter := r.run(Options{Webhook: &Webhook{URL: h.URL}, Mail: s.mail(), Now: clock})
	for i, wait := range []time.Duration{0, time.Minute, 2 * time.Minute} {
		advance := func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
		}
		if wait > 0 {
			advance(wait - 1)
			reporter.Ended(r.job, 1, 1) // too early
			advance(1)
		}
		reporter.Ended(r.job, 1, 1)
		<-h.calls
		for failures := i; failures == i && i < 2; time.Sleep(time.Millisecond) { // until its failure is known
			reporter.mu.Lock()
			failures = reporter.tries[r.job.ID].failures
			reporter.mu.Unlock()
		}
	}
	r.reported(reporter, 2)
	if len(h.calls) != 0 || len(s.mails) != 1 {
		t.Errorf("%d calls too many, %d mails, want 1", len(h.calls), len(s.mails))
	}
	if log := r.log.String(); strings.Count(log, "report not sent") != 2 || !strings.Contains(log, "report.webhook: answered 500 Internal Server Error: not now") || !strings.Contains(log, "302 Found") {
		t.Errorf("log:\n%s", log)
	}
}

// server is a mail server that keeps the mails that it receives.
type server struct {
	t     *testing.T
	addr  string
	tls   string
	roots *certtest.Authority
	mails chan received
}

type received struct {
	user, from, to, text string
}

const user, password = "reporter", "s3cret"

func newServer(t *testing.T, how string) *server {
	t.Helper()
	s := &server{t: t, tls: how, mails: make(chan received, 10)}
	backend := smtp.NewServer(smtp.BackendFunc(func(*smtp.Conn) (smtp.Session, error) { return &session{s: s}, nil }))
	backend.Domain, backend.AllowInsecureAuth, backend.ErrorLog = "mail.example", how == "none", discard{}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.addr = l.Addr().String()
	if how != "none" {
		s.roots = certtest.New(t, "mail")
		files := s.roots.Issue(t, "mail", time.Hour, "127.0.0.1")
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		backend.TLSConfig = &tls.Config{Certificates: []tls.Certificate{pair}}
		if how == "tls" {
			l = tls.NewListener(l, backend.TLSConfig)
		}
	}
	done := make(chan error, 1)
	go func() { done <- backend.Serve(l) }()
	t.Cleanup(func() {
		_ = backend.Close()
		if err := <-done; err != nil && !errors.Is(err, smtp.ErrServerClosed) {
			t.Error(err)
		}
	})
	return s
}

type discard struct{}

func (discard) Printf(string, ...any) {}
func (discard) Println(...any)        {}

func (s *server) mail() *Mail {
	m := &Mail{Server: s.addr, From: "crawl@example.com", TLS: s.tls}
	if s.roots != nil {
		m.Roots, m.User, m.Password = s.roots.Roots(), user, password
	}
	return m
}

type session struct {
	s *server
	received
}

func (c *session) AuthMechanisms() []string { return []string{sasl.Plain} }
func (c *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, name, secret string) error {
		if name != user || secret != password {
			return smtp.ErrAuthFailed
		}
		c.user = name
		return nil
	}), nil
}
func (c *session) Mail(from string, _ *smtp.MailOptions) error { c.from = from; return nil }
func (c *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	if strings.HasPrefix(to, "refused") {
		return &smtp.SMTPError{Code: 550, Message: "no such mailbox"}
	}
	c.to = to
	return nil
}

func (c *session) Data(r io.Reader) error {
	text, err := io.ReadAll(r)
	c.text = string(text)
	c.s.mails <- c.received
	return err
}
func (c *session) Reset()        {}
func (c *session) Logout() error { return nil }

func TestMails(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"starttls", "tls", "none"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, how)
			r := newRig(t, "one@example.com", "two@example.com")
			reporter := r.run(Options{Mail: s.mail()})
			reporter.Ended(r.job, 1, 1)
			r.reported(reporter, 2)
			for _, to := range []string{"one@example.com", "two@example.com"} {
				got := <-s.mails
				if got.from != "crawl@example.com" || got.to != to || how != "none" && got.user != user {
					t.Errorf("from %s to %s by %q", got.from, got.to, got.user)
				}
				m, err := netmail.ReadMessage(strings.NewReader(got.text))
				if err != nil {
					t.Fatal(err)
				}
				text, err := io.ReadAll(quotedprintable.NewReader(m.Body))
				if err != nil || m.Header.Get("Subject") != "uridownloader: job news has ended: 1 tasks done, 1 failed" || m.Header.Get("To") != "<"+to+">" {
					t.Errorf("%v, %q, %v", err, m.Header, string(text))
				}
				for _, want := range []string{"1 are done, 1 have failed", "1 by status, such as http://b.example/", "404 Not Found", "uridownloader tasks news --state failed"} {
					if !strings.Contains(string(text), want) {
						t.Errorf("lacks %q:\n%s", want, text)
					}
				}
			}
		})
	}
}

func TestMailFaults(t *testing.T) {
	t.Parallel()
	s := newServer(t, "starttls")
	strange := s.mail()
	strange.Roots = certtest.New(t, "other").Roots()
	wrong := s.mail()
	wrong.Password = "guess"
	plain := newServer(t, "none").mail()
	plain.TLS = "starttls"
	gone := &Mail{Server: "127.0.0.1:1", From: "crawl@example.com", TLS: "none"}
	for what, c := range map[string]struct {
		m        *Mail
		to, says string
	}{
		"another authority": {strange, "a@example.com", "certificate signed by unknown authority"},
		"wrong password":    {wrong, "a@example.com", "Authentication failed"},
		"no TLS":            {plain, "a@example.com", "STARTTLS"},
		"nobody listens":    {gone, "a@example.com", "connection refused"},
		"no such mailbox":   {s.mail(), "refused@example.com", "no such mailbox"},
	} {
		if err := c.m.send(t.Context(), c.to, Report{Job: "news"}); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
	}
}

// TestRetriedTasksAreReported: when tasks were tried again, their end is reported, although there are as many as before.
func TestRetriedTasksAreReported(t *testing.T) {
	t.Parallel()
	r, h := newRig(t), newHook(t)
	reporter := r.run(Options{Webhook: &Webhook{URL: h.URL}})
	reporter.Ended(r.job, 1, 1)
	<-h.calls
	r.reported(reporter, 2)
	reporter.Ended(r.job, 1, 1) // by a dispatcher that has read the job before it was marked
	r.reported(reporter, 2)
	r.need(r.retry())
	r.finish()
	job, err := r.store.Job(t.Context(), "news")
	r.need(err)
	reporter.Ended(job, 2, 0)
	select {
	case call := <-h.calls:
		if !strings.Contains(call, `"done":2`) {
			t.Errorf("reported %s", call)
		}
	case <-time.After(time.Minute):
		t.Fatal("the end of the tasks that were tried again is not reported")
	}
	r.reported(reporter, 2)
	if len(h.calls) > 0 {
		t.Errorf("reported twice: %s", <-h.calls)
	}
}

// TestRetryDuringAReport: the end of tasks that are tried again while a report is sent does not count as reported, whether
// they end before the report does or after it.
func TestRetryDuringAReport(t *testing.T) {
	t.Parallel()
	for _, ends := range []bool{false, true} {
		r := newRig(t)
		called, retried := make(chan struct{}), make(chan struct{})
		hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(called)
			<-retried
		}))
		t.Cleanup(hook.Close)
		reporter := r.run(Options{Webhook: &Webhook{URL: hook.URL}})
		reporter.Ended(r.job, 1, 1)
		<-called
		err := r.retry()
		if err == nil && ends {
			r.finish()
		}
		close(retried)
		r.need(err)
		r.reported(reporter, 0)
	}
}

// retry has the tasks that have failed wait again.
func (r *rig) retry() error {
	var ids []string
	err := r.store.ListTasks(r.Context(), download.Query{Job: r.job.ID, State: download.Failed}, func(task download.Task) error {
		ids = append(ids, task.ID)
		return nil
	})
	if err == nil {
		_, err = r.store.Retry(r.Context(), r.job.ID, ids)
	}
	return err
}

// finish finishes all tasks that wait.
func (r *rig) finish() {
	r.Helper()
	_, err := r.store.HandOut(r.Context(), r.job.ID, 2, 0, time.Hour)
	r.need(err)
	leases, err := r.store.Lease(r.Context(), download.Want{Owner: "w", Max: 2, For: time.Hour, Shards: []int{0}, Lanes: download.Lanes()})
	r.need(err)
	for _, l := range leases {
		r.need(r.store.Finish(r.Context(), l, download.Result{URI: l.Task.URI, Status: 200}, download.Attempt{Status: 200}))
	}
}

// TestTextOfManyFailures: reasons of some tasks are not given as those of all.
func TestTextOfManyFailures(t *testing.T) {
	t.Parallel()
	for failed, want := range map[int]string{maxLooked: "Why they have failed:", maxLooked + 1: "Why the first 10000 of them have failed:"} {
		if text := (Report{Tasks: Tasks{Failed: failed}, Reasons: []Reason{{}}}).text(); !strings.Contains(text, want) {
			t.Errorf("%d failed: lacks %q:\n%s", failed, want, text)
		}
	}
}
