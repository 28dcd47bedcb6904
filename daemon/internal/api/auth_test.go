package api

import (
	"net/http"
	"strings"
	"testing"
)

func TestScopes(t *testing.T) {
	const body = `{"filter_typeid":1,"uri_list":["a"]}`
	calls := []struct{ method, path, body, scopes string }{
		{"POST", "/api/v1/filter", body, "filter admin"},
		{"POST", "/cr-clawr/uri_filter/api/uri_filter/", body, "filter admin"},
		{"POST", "/api/v1/check", body, "read filter admin"},
		{"GET", "/api/v1/filters", "", "read filter admin"},
		{"GET", "/api/v1/filters/uri", "", "read filter admin"},
		{"HEAD", "/api/v1/filters/uri", "", "read filter admin"},
		{"POST", "/api/v1/filters/uri/writeback", "", "admin"},
		{"POST", "/api/v1/filters/uri/restore", "", "admin"},
		{"PUT", "/api/v1/filters/uri", "", "admin"},
		{"DELETE", "/api/v1/filters/uri?confirm=uri", "", "admin"},
	}
	r := newRig(t, withTokens)
	for _, c := range calls {
		for _, scope := range []string{"read", "filter", "admin"} {
			a := r.do(c.method, c.path, c.body, "Authorization", "bearer secret-"+scope)
			if got, want := a.status != http.StatusForbidden, strings.Contains(c.scopes, scope); got != want || a.status == http.StatusUnauthorized {
				t.Errorf("%s %s with scope %s: %d, want it admitted: %v", c.method, c.path, scope, a.status, want)
			}
		}
	}
}

func TestTokenInTheBody(t *testing.T) {
	r := newRig(t, withTokens)
	body := `{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-filter"}`
	if a := r.post("/api/v1/filter", body); a.status != 200 {
		t.Errorf("token in the body: %d %s", a.status, a.body)
	}
	if a := r.post("/api/v1/check", strings.Replace(body, "filter\"}", "read\"}", 1)); a.status != 200 {
		t.Errorf("token in the body of a check: %d %s", a.status, a.body)
	}
	if a := r.do("POST", "/api/v1/filter", strings.Replace(body, "secret-filter", "wrong", 1), "Authorization", "Bearer secret-filter"); a.status != 200 {
		t.Errorf("the header's token is the one that counts: %d %s", a.status, a.body)
	}
	if strings.Contains(r.log.String(), "secret-") {
		t.Error("a token is in the log")
	}
}

func TestPathsThatNeedNoToken(t *testing.T) {
	r := newRig(t, withTokens)
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/openapi.yaml"} {
		if a := r.do("GET", path, ""); a.status != 200 {
			t.Errorf("GET %s: %d", path, a.status)
		}
	}
}

func TestNoTokensNoQuestions(t *testing.T) {
	a := newRig(t).do("GET", "/api/v1/filters", "", "Authorization", "Basic what:ever")
	if a.status != 200 {
		t.Errorf("got %d", a.status)
	}
}

// With a token in the header the body is not waited for.
func TestWrongTokenIsAnsweredBeforeTheBody(t *testing.T) {
	r := newRig(t, withTokens)
	a := raw("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")(r)
	if a.status != http.StatusUnauthorized {
		t.Errorf("got %d", a.status)
	}
}
