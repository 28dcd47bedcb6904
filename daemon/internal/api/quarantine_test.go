package api

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A damaged filter has an answer of its own, is named wherever filters are, and leaves
// the others alone.
func TestQuarantinedFilter(t *testing.T) {
	dir := t.TempDir()
	st := openEmbedded(t, dir)
	r := newRigOver(t, st)
	r.http.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filters", "2-ip", "bitmap"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st = openEmbedded(t, dir)
	r = newRigOver(t, st)
	t.Cleanup(func() {
		r.http.Close()
		_ = st.Close()
	})
	if a := r.post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`); a.status != http.StatusOK {
		t.Errorf("the other: %d %s", a.status, a.body)
	}
	for _, ref := range []string{`2`, `"ip"`} {
		a := r.post("/api/v1/filter", `{"filter_typeid":`+ref+`,"uri_list":["a"]}`)
		if a.status != http.StatusServiceUnavailable || !strings.Contains(string(a.body), `"error_code":"filter_quarantined"`) {
			t.Errorf("%s: %d %s", ref, a.status, a.body)
		}
	}
	for path, want := range map[string]string{
		"/api/v1/filters": `"quarantined":[{"id":2,"name":"ip","reason":"`,
		"/readyz":         "ready, but for filters in quarantine: ip\n",
		"/readyz?verbose": "filter ip: in quarantine",
		"/metrics":        `urifilter_filter_quarantined{filter="ip"} 1`,
	} {
		if a := r.do(http.MethodGet, path, ""); a.status != http.StatusOK || !strings.Contains(string(a.body), want) {
			t.Errorf("%s: %d, lacks %s:\n%s", path, a.status, want, a.body)
		}
	}
	if a := r.do(http.MethodDelete, "/api/v1/filters/ip", ""); a.status != http.StatusBadRequest {
		t.Errorf("drop without confirm: %d %s", a.status, a.body)
	}
	if a := r.do(http.MethodDelete, "/api/v1/filters/ip?confirm=ip", ""); a.status != http.StatusNoContent {
		t.Errorf("drop: %d %s", a.status, a.body)
	}
	if a := r.do(http.MethodPut, "/api/v1/filters/ip", ""); a.status != http.StatusCreated {
		t.Errorf("made anew: %d %s", a.status, a.body)
	}
}
