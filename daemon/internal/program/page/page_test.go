package page_test

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/page"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pagetest"
)

// rig is a program with one page and one action, behind its Guard as programs have it.
type rig struct {
	t      *testing.T
	server *httptest.Server
	url    string

	mu     sync.Mutex
	tokens map[string][]string // by secret
	now    time.Time
	called []string // calls of the API
	answer int      // of the API
}

func newRig(t *testing.T, tokens map[string][]string) *rig {
	r := &rig{t: t, tokens: tokens, now: time.Unix(1e9, 0), answer: http.StatusNoContent}
	o := access.Options{Program: "test", Includes: map[string][]string{"admin": {"read"}}, Log: slog.New(slog.DiscardHandler)}
	if tokens != nil {
		o.Authenticate = func(secret string) (string, []string, bool) {
			r.mu.Lock()
			defer r.mu.Unlock()
			scopes, ok := r.tokens[secret]
			if secret == ofHostileName {
				return pagetest.Hostile, scopes, ok
			}
			return "name-of-" + secret[len(secret)-1:], scopes, ok
		}
	}
	guard := access.New(o, prometheus.NewRegistry())
	explain := func(err error) (int, string, string) {
		var p *problemdetail.Error
		if !errors.As(err, &p) {
			return 500, "Internal error.", ""
		}
		return problemdetail.Common("test")[p.Code].Status, p.Code, p.Detail
	}
	api := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.mu.Lock()
		defer r.mu.Unlock()
		body, _ := io.ReadAll(req.Body)
		r.called = append(r.called, strings.TrimSpace(req.Method+" "+req.URL.RequestURI()+" "+req.Header.Get("Authorization")+" "+string(body)))
		w.WriteHeader(r.answer)
		io.WriteString(w, `{"title":"No.","detail":"`+`<b>because</b>`+`"}`)
	})
	site := page.New(page.Options{Changed: func() {},
		Program: "test", Version: "1", Guard: guard, Read: "read", API: api, Explain: explain, Now: func() time.Time { r.mu.Lock(); defer r.mu.Unlock(); return r.now },
		Log:   func(err error) { t.Error(err) },
		Texts: page.Texts{"act.do": {"Do it", "执行"}, "act.what": {"%s ends", "%s 结束"}, "done.act": {"Done", "完成"}, "hello": {"Hello %s", "你好 %s"}, "field.why": {"Why", "原因"}},
		Templates: fstest.MapFS{"home.html": {Data: []byte(
			`{{define "title"}}{{.Data}}{{end}}{{define "body"}}{{template "done" .}}{{template "updated" .}}<p>{{t "hello" .Data}}</p>{{if .May "admin"}}<a href="/ui/act/{{path .Data}}">act</a>{{end}}<a href="{{.With "a" .Data}}">more</a>{{end}}`)}},
	})
	site.Page("/{$}", "home", func(v *page.View) (any, error) { return v.Query("name"), nil })
	site.Act(page.Action{Path: "/ui/act/{name}", Scope: "admin", Text: "act", Danger: true, Fields: []page.Field{{Name: "why"}},
		Call: func(name string, form url.Values) (string, string, any) {
			return "POST", "/api/" + page.Escaped(name), map[string]any{"why": form.Get("why")}
		},
		Back: func(string) string { return "/" }})
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if err := guard.Page(req); err != nil {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		site.ServeHTTP(w, req)
	}))
	t.Cleanup(r.server.Close)
	r.url = r.server.URL
	return r
}

// do sends a request as the program's own page would; header, in pairs, goes before that.
func (r *rig) do(method, path, body string, header ...string) (*http.Response, string) {
	r.t.Helper()
	req, err := http.NewRequest(method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html")
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.url)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for i := 0; i < len(header); i += 2 {
		if req.Header.Set(header[i], header[i+1]); header[i] == "Host" {
			req.Host = header[i+1]
		} else if header[i+1] == "" {
			req.Header.Del(header[i])
		}
	}
	resp, err := http.DefaultTransport.RoundTrip(req) // follows nothing
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if resp.Header.Get("Content-Type") == "text/html; charset=utf-8" {
		pagetest.Clean(r.t, resp, string(text))
	}
	return resp, string(text)
}

// login returns the cookie that a token gets.
func (r *rig) login(secret string) (cookie string) {
	r.t.Helper()
	resp, text := r.do("POST", "/ui/login", url.Values{"token": {secret}}.Encode())
	if resp.StatusCode != http.StatusSeeOther || len(resp.Cookies()) != 1 {
		r.t.Fatalf("log-in: %d %s", resp.StatusCode, text)
	}
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

func (r *rig) want(status int, method, path, body string, header ...string) string {
	r.t.Helper()
	resp, text := r.do(method, path, body, header...)
	if resp.StatusCode != status {
		r.t.Errorf("%s %s %q: %d %s, want %d", method, path, header, resp.StatusCode, text, status)
	}
	return text
}

func (r *rig) calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	was := r.called
	r.called = nil
	return was
}

const (
	reader = "token-of-a-reader-r"
	admin  = "token-of-an-admin-a"
)

func scopes() map[string][]string {
	return map[string][]string{reader: {"read"}, admin: {"admin"}, "token-of-another-o": {"other"}}
}

// ofHostileName is a token that has a script for its name.
const ofHostileName = "token-of-hostile-name"

// A browser without a session sees the form and nothing else; a session has the scopes of its token, and ends.
func TestSessions(t *testing.T) {
	r := newRig(t, scopes())
	if text := r.want(401, "GET", "/?name=secret-thing", ""); strings.Contains(text, "secret-thing") || !strings.Contains(text, `name="token"`) {
		t.Errorf("without a session: %s", text)
	}
	for secret, status := range map[string]int{"": 401, "token-that-is-not": 401, "token-of-another-o": 403} {
		if text := r.want(status, "POST", "/ui/login", url.Values{"token": {secret}}.Encode()); secret != "" && strings.Contains(text, secret) {
			t.Errorf("the form shows the token: %s", text)
		}
	}
	resp, _ := r.do("POST", "/ui/login", "token="+reader)
	for _, want := range []string{"HttpOnly", "SameSite=Strict", "Path=/"} {
		if got := resp.Header.Get("Set-Cookie"); !strings.Contains(got, want) || strings.Contains(got, "Secure") || strings.Contains(got, reader) {
			t.Errorf("cookie: %s", got)
		}
	}
	resp, _ = r.do("POST", "/ui/login", "token="+reader, "X-Forwarded-Proto", "https")
	if got := resp.Header.Get("Set-Cookie"); !strings.HasPrefix(got, "__Host-test_session") || !strings.Contains(got, "Secure") {
		t.Errorf("behind TLS: %s", got)
	}
	reads, acts := r.login(reader), r.login(admin)
	if text := r.want(200, "GET", "/?name=x", "", "Cookie", reads); strings.Contains(text, "/ui/act/") || strings.Contains(text, reader) || !strings.Contains(text, "name-of-r") {
		t.Errorf("a reader sees %s", text)
	}
	if text := r.want(200, "GET", "/?name=x", "", "Cookie", acts); !strings.Contains(text, "/ui/act/x") {
		t.Errorf("an admin sees %s", text)
	}
	r.want(403, "GET", "/ui/act/x", "", "Cookie", reads)
	r.want(403, "POST", "/ui/act/x", "", "Cookie", reads)
	if calls := r.calls(); calls != nil {
		t.Errorf("a reader has called %q", calls)
	}
	if text := r.want(200, "GET", "/ui/act/x", "", "Cookie", acts); !strings.Contains(text, "x ends") {
		t.Errorf("the question: %s", text)
	}
	r.want(303, "POST", "/ui/act/x%2Fy", "why=so", "Cookie", acts)
	if calls := r.calls(); len(calls) != 1 || calls[0] != `POST /api/x%2Fy Bearer `+admin+` {"why":"so"}` {
		t.Errorf("called %q", calls)
	}
	r.answer = http.StatusConflict
	if text := r.want(409, "POST", "/ui/act/x", "why=so", "Cookie", acts); !strings.Contains(text, "&lt;b&gt;because") || !strings.Contains(text, `value="so"`) {
		t.Errorf("a refusal: %s", text)
	}
	// A token that is taken back ends its sessions, time does, and so does a log-out.
	r.mu.Lock()
	r.tokens = maps.Clone(r.tokens)
	delete(r.tokens, reader)
	r.mu.Unlock()
	r.want(401, "GET", "/", "", "Cookie", reads)
	other := r.login(admin)
	r.want(303, "POST", "/ui/logout", "", "Cookie", other)
	r.want(401, "GET", "/", "", "Cookie", other)
	r.want(200, "GET", "/", "", "Cookie", acts)
	r.mu.Lock()
	r.now = r.now.Add(13 * time.Hour)
	r.mu.Unlock()
	r.want(401, "GET", "/", "", "Cookie", acts)
	// The header works as for calls of the API, and goes before a session.
	r.want(200, "GET", "/", "", "Authorization", "Bearer "+admin)
	r.want(401, "GET", "/", "", "Authorization", "Bearer wrong-token", "Cookie", r.login(admin))
}

// One token has a bounded number of sessions, and takes none from others.
func TestSessionsAreBounded(t *testing.T) {
	r := newRig(t, scopes())
	theirs, first := r.login(reader), r.login(admin)
	for range 20 {
		r.mu.Lock()
		r.now = r.now.Add(time.Second)
		r.mu.Unlock()
		r.login(admin)
	}
	r.want(401, "GET", "/", "", "Cookie", first)
	r.want(200, "GET", "/", "", "Cookie", theirs)
}

func TestGuessing(t *testing.T) {
	r := newRig(t, scopes())
	for range access.RefusedBurst {
		r.want(401, "POST", "/ui/login", "token=guess")
	}
	resp, _ := r.do("POST", "/ui/login", "token=guess")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	r.want(400, "POST", "/ui/login", "token="+strings.Repeat("x", 10<<10))
}

// What changes something comes from the program's own pages, with tokens and without.
func TestForgedRequests(t *testing.T) {
	for _, tokens := range []map[string][]string{nil, scopes()} {
		r := newRig(t, tokens)
		cookie := "a=b"
		if tokens != nil {
			cookie = r.login(admin)
		}
		for name, header := range map[string][]string{
			"another site":           {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
			"in an old browser":      {"Origin", "https://evil.example", "Sec-Fetch-Site", ""},
			"another port":           {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", "same-site"},
			"the same, old":          {"Origin", "http://127.0.0.1:1", "Sec-Fetch-Site", ""},
			"a frame, a file":        {"Origin", "null", "Sec-Fetch-Site", ""},
			"no browser":             {"Origin", "", "Sec-Fetch-Site", ""},
			"DNS rebinding":          {"Host", "evil.example", "Origin", "http://evil.example", "Sec-Fetch-Site", "cross-site"},
			"a frame of the program": {"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		} {
			for _, path := range []string{"/ui/act/x", "/ui/login", "/ui/logout"} {
				if resp, text := r.do("POST", path, "token="+admin, append(header, "Cookie", cookie)...); resp.StatusCode != 403 || len(resp.Cookies()) > 0 {
					t.Errorf("%s: POST %s: %d %s", name, path, resp.StatusCode, text)
				}
			}
		}
		if tokens == nil {
			r.want(403, "GET", "/", "", "Host", "evil.example")
			r.want(403, "POST", "/ui/act/x", "", "Host", "evil.example", "Origin", "http://evil.example") // same-origin, by DNS rebinding
		}
		if calls := r.calls(); calls != nil {
			t.Errorf("called %q", calls)
		}
		r.want(303, "POST", "/ui/act/x", "", "Cookie", cookie)
		r.want(303, "POST", "/ui/act/x", "", "Cookie", cookie, "Sec-Fetch-Site", "")
		if calls := r.calls(); len(calls) != 2 {
			t.Errorf("called %q", calls)
		}
	}
}

// What others wrote is text, wherever it stands.
func TestHostileTexts(t *testing.T) {
	r := newRig(t, nil)
	q := url.QueryEscape(pagetest.Hostile)
	for _, path := range []string{"/?name=" + q, "/?done=" + q, "/?" + q + "=" + q, "/ui/act/" + url.PathEscape(pagetest.Hostile), "/ui/" + url.PathEscape(pagetest.Hostile)} {
		if _, text := r.do("GET", path, ""); strings.Contains(text, "<script>alert") || strings.Contains(text, "<img") {
			t.Errorf("%s: %s", path, text)
		}
	}
	r.answer = 409
	r.want(409, "POST", "/ui/act/"+url.PathEscape(pagetest.Hostile), "why="+q)

	r = newRig(t, map[string][]string{ofHostileName: {"admin"}})
	if text := r.want(200, "GET", "/", "", "Cookie", r.login(ofHostileName)); strings.Contains(text, "<script>alert") || !strings.Contains(text, "&lt;script&gt;alert") {
		t.Errorf("the name of a token: %s", text)
	}
}

func TestLanguages(t *testing.T) {
	r := newRig(t, nil)
	for accept, want := range map[string]string{
		"": "Hello", "en-GB,zh;q=0.5": "Hello", "zh-CN,zh;q=0.9,en;q=0.8": "你好", "zh": "你好", "zh-TW": "你好", "fr, zh;q=0.2": "你好", "de": "Hello", ";;;": "Hello",
	} {
		if text := r.want(200, "GET", "/", "", "Accept-Language", accept); !strings.Contains(text, want) {
			t.Errorf("%s: %s", accept, text)
		}
	}
}

func TestWantsHTML(t *testing.T) {
	for accept, want := range map[string]bool{
		"": false, "*/*": false, "text/*": false, "application/json, */*": false, "text/html,application/xhtml+xml,*/*;q=0.8": true, "text/plain, text/html; q=0": false, "TEXT/HTML": true,
	} {
		if got := page.WantsHTML(&http.Request{Header: http.Header{"Accept": {accept}}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
}

// A text that one language lacks, or that takes other values there, is found when the program starts.
func TestTextsAreComplete(t *testing.T) {
	for name, o := range map[string]page.Options{
		"no Chinese":    {Texts: page.Texts{"a": {"a", ""}}},
		"another value": {Texts: page.Texts{"a": {"%s", "%d"}}},
		"unknown":       {Templates: fstest.MapFS{"x.html": {Data: []byte(`{{define "title"}}{{t "nothing"}}{{end}}{{define "body"}}{{end}}`)}}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: not noticed", name)
				}
			}()
			if o.Templates == nil {
				o.Templates = fstest.MapFS{}
			}
			page.New(o)
		}()
	}
}
