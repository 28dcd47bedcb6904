package filters_test

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
)

func TestOverTheEmbeddedStore(t *testing.T) {
	dir := t.TempDir()
	const body = `{"filter_typeid":1,"uri_list":["a",{"b":1},"a"]}`
	for _, want := range []string{`{"uri_list":["a",{"b":1}],"total":3,"duplicates":1}` + "\n", `{"uri_list":[],"total":3,"duplicates":3}` + "\n"} {
		st := apitest.OpenEmbedded(t, dir)
		r := apitest.Over(t, st)
		apitest.WantBody(t, r.Post("/api/v1/filter", body), want)
		r.HTTP.Close()
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// A filter is dropped and made again while streams use it: each ends complete or cut,
// and the daemon goes on.
func TestDropsUnderStreams(t *testing.T) {
	st := apitest.OpenEmbedded(t, t.TempDir())
	r := apitest.Over(t, st)
	t.Cleanup(func() { // before the rig's own
		r.HTTP.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	var streams sync.WaitGroup
	stop := make(chan struct{})
	for range 4 {
		streams.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				pr, pw := io.Pipe()
				go func() { pw.CloseWithError(apitest.Numbered(pw, 0, 40_000)) }()
				resp, err := http.Post(r.HTTP.URL+"/api/v1/filter?filter_typeid=drops", apitest.TextType, pr)
				if err != nil {
					continue // cut before it began
				}
				_, err = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if err == nil && resp.StatusCode == 200 && resp.Trailer.Get("Urifilter-Total") != "40000" {
					t.Errorf("a part was answered as if it were whole: %v", resp.Trailer)
				}
				if resp.StatusCode != 200 && resp.StatusCode != 404 {
					t.Errorf("got %s", resp.Status)
				}
			}
		})
	}
	for range 4 {
		if a := r.Put("drops", `{"capacity":100000}`); a.Status != 201 {
			t.Errorf("PUT: %d %s", a.Status, a.Body)
		}
		r.Post("/api/v1/filter", `{"filter_typeid":"drops","uri_list":["x"]}`)
		if a := r.Do("DELETE", "/api/v1/filters/drops?confirm=drops", ""); a.Status != 204 {
			t.Errorf("DELETE: %d %s", a.Status, a.Body)
		}
		r.Scrape()
	}
	close(stop)
	streams.Wait()
}

// A damaged filter gets a specific answer, is named wherever filters are listed, and does not
// affect the others.
func TestQuarantinedFilter(t *testing.T) {
	dir := t.TempDir()
	st := apitest.OpenEmbedded(t, dir)
	r := apitest.Over(t, st)
	r.HTTP.Close()
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "filters", "2-ip", "bitmap"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	st = apitest.OpenEmbedded(t, dir)
	r = apitest.Over(t, st)
	t.Cleanup(func() {
		r.HTTP.Close()
		_ = st.Close()
	})
	if a := r.Post("/api/v1/filter", `{"filter_typeid":1,"uri_list":["a"]}`); a.Status != http.StatusOK {
		t.Errorf("the other: %d %s", a.Status, a.Body)
	}
	for _, ref := range []string{`2`, `"ip"`} {
		a := r.Post("/api/v1/filter", `{"filter_typeid":`+ref+`,"uri_list":["a"]}`)
		if a.Status != http.StatusServiceUnavailable || !strings.Contains(string(a.Body), `"error_code":"filter_quarantined"`) {
			t.Errorf("%s: %d %s", ref, a.Status, a.Body)
		}
	}
	for path, want := range map[string]string{
		"/api/v1/filters": `"quarantined":[{"id":2,"name":"ip","reason":"`,
		"/readyz":         "ready, but for filters in quarantine: ip\n",
		"/readyz?verbose": "filter ip: in quarantine",
		"/metrics":        `urifilter_filter_quarantined{filter="ip"} 1`,
	} {
		if a := r.Do(http.MethodGet, path, ""); a.Status != http.StatusOK || !strings.Contains(string(a.Body), want) {
			t.Errorf("%s: %d, lacks %s:\n%s", path, a.Status, want, a.Body)
		}
	}
	if a := r.Do(http.MethodDelete, "/api/v1/filters/ip", ""); a.Status != http.StatusBadRequest {
		t.Errorf("drop without confirm: %d %s", a.Status, a.Body)
	}
	if a := r.Do(http.MethodDelete, "/api/v1/filters/ip?confirm=ip", ""); a.Status != http.StatusNoContent {
		t.Errorf("drop: %d %s", a.Status, a.Body)
	}
	if a := r.Do(http.MethodPut, "/api/v1/filters/ip", ""); a.Status != http.StatusCreated {
		t.Errorf("re-created: %d %s", a.Status, a.Body)
	}
}
