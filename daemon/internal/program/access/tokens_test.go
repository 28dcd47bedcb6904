package access_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
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
	r := apitest.New(t, apitest.WithTokens)
	for _, c := range calls {
		for _, scope := range []string{"read", "filter", "admin"} {
			a := r.Do(c.method, c.path, c.body, "Authorization", "bearer secret-"+scope)
			if got, want := a.Status != http.StatusForbidden, strings.Contains(c.scopes, scope); got != want || a.Status == http.StatusUnauthorized {
				t.Errorf("%s %s with scope %s: %d, want it admitted: %v", c.method, c.path, scope, a.Status, want)
			}
		}
	}
}

func TestTokenInTheBody(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	body := `{"filter_typeid":1,"uri_list":["a"],"access_token":"secret-filter"}`
	if a := r.Post("/api/v1/filter", body); a.Status != 200 {
		t.Errorf("token in the body: %d %s", a.Status, a.Body)
	}
	if a := r.Post("/api/v1/check", strings.Replace(body, "filter\"}", "read\"}", 1)); a.Status != 200 {
		t.Errorf("token in the body of a check: %d %s", a.Status, a.Body)
	}
	if a := r.Do("POST", "/api/v1/filter", strings.Replace(body, "secret-filter", "wrong", 1), "Authorization", "Bearer secret-filter"); a.Status != 200 {
		t.Errorf("the header's token is the one that counts: %d %s", a.Status, a.Body)
	}
	if strings.Contains(r.Log.String(), "secret-") {
		t.Error("a token is in the log")
	}
}

func TestPathsThatNeedNoToken(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	for _, path := range []string{"/", "/livez", "/readyz", "/metrics", "/openapi.yaml"} {
		if a := r.Do("GET", path, ""); a.Status != 200 {
			t.Errorf("GET %s: %d", path, a.Status)
		}
	}
}

func TestNoTokensNoQuestions(t *testing.T) {
	a := apitest.New(t).Do("GET", "/api/v1/filters", "", "Authorization", "Basic what:ever")
	if a.Status != 200 {
		t.Errorf("got %d", a.Status)
	}
}

// With a token in the header, the answer does not wait for the body.
func TestWrongTokenIsAnsweredBeforeTheBody(t *testing.T) {
	r := apitest.New(t, apitest.WithTokens)
	a := apitest.Raw("POST /api/v1/filter HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n")(r)
	if a.Status != http.StatusUnauthorized {
		t.Errorf("got %d", a.Status)
	}
}
