package access

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// newGuard makes a Guard that knows the token "secret" with the scope filter.
func newGuard() (*Guard, *bytes.Buffer) {
	log := &bytes.Buffer{}
	return New(Options{
		Program: "urifilter", Includes: map[string][]string{"filter": {"read"}},
		Authenticate: func(secret string) (string, []string, bool) {
			return "crawler", []string{"filter"}, secret == "secret"
		},
		Log: slog.New(slog.NewTextHandler(log, nil)),
	}, prometheus.NewRegistry()), log
}

func asking(authorization, scope string) Call {
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return Call{Request: r, Path: "/{x}", Scope: scope}
}

func TestHeader(t *testing.T) {
	g, log := newGuard()
	for _, test := range []struct {
		header, scope string
		name          string
		present       bool
		code, logged  string
	}{
		{"", "read", "", false, "", ""},
		{"Bearer secret", "read", "crawler", true, "", ""},
		{"bearer  secret ", "filter", "crawler", true, "", ""},
		{"Bearer secret", "admin", "crawler", true, problemdetail.Forbidden, `reason="scope lacks" token=crawler scope=admin`},
		{"Bearer other", "read", "", true, problemdetail.Unauthorized, `reason="unknown token" token=- scope=read`},
		{"Bearer", "read", "", true, problemdetail.Unauthorized, `reason="no token" token=- scope=read`},
		{"Basic secret", "read", "", true, problemdetail.Unauthorized, `reason="no bearer token" token=- scope=read`},
		{" \t ", "read", "", false, "", ""},
	} {
		log.Reset()
		name, present, err := g.Header(asking(test.header, test.scope))
		if name != test.name || present != test.present || err == nil != (test.code == "") {
			t.Errorf("%q for %s: %q, %v, %v", test.header, test.scope, name, present, err)
		}
		if err != nil && problemdetail.Of(err).Code != test.code {
			t.Errorf("%q for %s: %v, want %s", test.header, test.scope, err, test.code)
		}
		if got := log.String(); !strings.Contains(got, test.logged) || got == "" != (test.logged == "") || strings.Contains(got, "secret") {
			t.Errorf("%q for %s: logged %q, want %q", test.header, test.scope, got, test.logged)
		}
	}
}

// The next logged refusal also reports the refusals that were not logged.
func TestRefusalsThatAreNotLoggedAreCounted(t *testing.T) {
	g, log := newGuard()
	g.refusals.untold.Store(7)
	if err := g.NoToken(asking("", "read"), "send one"); problemdetail.Of(err).Code != problemdetail.Unauthorized {
		t.Errorf("got %v", err)
	}
	if got := strings.TrimSpace(log.String()); !strings.HasSuffix(got, "path=/{x} not_logged_before=7") || strings.Count(got, "\n") > 0 {
		t.Errorf("logged %q", got)
	}
}

// Whether a call has a header is one fact: a call that Header finds none in is anonymous, and no
// other, however often and with whatever the header is sent.
func TestAnonymousIsWithoutAHeader(t *testing.T) {
	g, _ := newGuard()
	for _, test := range []struct {
		values    []string
		anonymous bool
		code      string
	}{
		{nil, true, ""},
		{[]string{}, true, ""},
		{[]string{""}, true, ""},
		{[]string{" ", "\t"}, true, ""},
		{[]string{"Bearer secret"}, false, ""},
		{[]string{"", "Bearer secret"}, false, ""},
		{[]string{"Bearer secret", " "}, false, ""},
		{[]string{"Bearer secret", "Bearer secret"}, false, problemdetail.Unauthorized},
		{[]string{"Bearer secret", "", "Basic x"}, false, problemdetail.Unauthorized},
		{[]string{"Basic x"}, false, problemdetail.Unauthorized},
		{[]string{"Bearer"}, false, problemdetail.Unauthorized},
		{[]string{","}, false, problemdetail.Unauthorized},
	} {
		c := asking("", "read")
		c.Request.Header["Authorization"] = test.values
		_, present, err := g.Header(c)
		if anonymous := g.Anonymous(c.Request); anonymous != test.anonymous || present == anonymous {
			t.Errorf("%q: anonymous %v, header found %v", test.values, anonymous, present)
		}
		if (err == nil) != (test.code == "") || err != nil && problemdetail.Of(err).Code != test.code {
			t.Errorf("%q: %v, want %s", test.values, err, test.code)
		}
	}
	open := New(Options{Program: "urifilter", Log: slog.New(slog.DiscardHandler)}, prometheus.NewRegistry())
	if open.Anonymous(asking("", "read").Request) {
		t.Error("where no token is required, a caller is anonymous")
	}
}

// A token has half of the calls that can run at once, and each that ends makes room for one.
func TestOneTokenHasHalfOfTheCalls(t *testing.T) {
	g := New(Options{Program: "urifilter", Connections: 4, Log: slog.New(slog.DiscardHandler)}, prometheus.NewRegistry())
	for i, step := range []struct {
		name  string
		leave bool
		ok    bool
	}{{name: "a", ok: true}, {name: "a", ok: true}, {name: "a"}, {name: "b", ok: true}, {name: "a", leave: true, ok: true}, {name: "a", ok: true}, {name: "a"}} {
		if step.leave {
			g.Leave(step.name)
			continue
		}
		if err := g.Enter(step.name); (err == nil) != step.ok || err != nil && problemdetail.Of(err).Code != problemdetail.Overloaded {
			t.Errorf("step %d: %v", i, err)
		}
	}
	for _, name := range []string{"a", "a", "b"} {
		g.Leave(name)
	}
	if len(g.running.of) > 0 {
		t.Errorf("left: %v", g.running.of)
	}
}
