package http_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pagetest"
)

// browse sends a request as a browser does from the daemon's own page.
func browse(t *testing.T, r *apitest.Rig, cookie, method, path, form string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequest(method, r.HTTP.URL+path, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,*/*;q=0.8")
	req.Header.Set("Cookie", cookie)
	if method == "POST" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		req.Header.Set("Origin", r.HTTP.URL)
		req.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	resp, err := r.HTTP.Client().Transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		pagetest.Clean(t, resp, string(text))
	}
	if strings.Contains(string(text), "secret-") || strings.Contains(string(text), "item-of-somebody") {
		t.Errorf("%s shows a token or an item: %s", path, text)
	}
	return resp, string(text)
}

func logIn(t *testing.T, r *apitest.Rig, token string) (cookie string) {
	t.Helper()
	resp, text := browse(t, r, "", "POST", "/ui/login", "token="+token)
	if resp.StatusCode != 303 || len(resp.Cookies()) != 1 {
		t.Fatalf("%d %s", resp.StatusCode, text)
	}
	return resp.Cookies()[0].Name + "=" + resp.Cookies()[0].Value
}

// Browsers get a page at /, others the text that they always got.
func TestRootForBrowsersAndOthers(t *testing.T) {
	r := apitest.New(t)
	if a := r.Do("GET", "/", "", "Accept", "*/*"); a.Header.Get("Content-Type") != "text/plain; charset=utf-8" || !strings.Contains(a.Body, "POST /api/v1/filter") {
		t.Errorf("curl: %v %s", a.Header, a.Body)
	}
	if a := r.Do("GET", "/", "", "Accept", "text/html"); a.Header.Get("Content-Type") != "text/html; charset=utf-8" || !strings.Contains(a.Body, "/ui/filters/uri") || !strings.Contains(a.Header.Get("Vary"), "Accept") {
		t.Errorf("a browser: %v %s", a.Header, a.Body)
	}
	r.Post("/api/v1/filter", `{"filter_typeid":"uri","uri_list":["item-of-somebody","item-of-somebody"]}`)
	for _, path := range []string{"/", "/ui/filters/uri", "/ui/filters/1", "/ui/filters/uri/drop", "/ui/create"} {
		if resp, text := browse(t, r, "", "GET", path, ""); resp.StatusCode != 200 {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
	for path, status := range map[string]int{"/ui/filters/none": 404, "/ui/none": 404, "/ui/": 404} {
		if resp, text := browse(t, r, "", "GET", path, ""); resp.StatusCode != status {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
	}
}

// What a page may do is what its token may, it is logged with the token's name, and the API knows no cookies.
func TestPagesHaveTheScopesOfTokens(t *testing.T) {
	kept := &apitest.Backup{}
	r := apitest.New(t, apitest.WithTokens, func(o *api.Options) { o.Backup, o.About.Archive = kept, &pageArchive{connected: true} })
	if resp, text := browse(t, r, "", "GET", "/", ""); resp.StatusCode != 401 || strings.Contains(text, "/ui/filters") {
		t.Errorf("a stranger sees %d %s", resp.StatusCode, text)
	}
	reads, acts := logIn(t, r, "secret-read"), logIn(t, r, "secret-admin")
	if resp, text := browse(t, r, reads, "GET", "/ui/filters/uri", ""); resp.StatusCode != 200 || strings.Contains(text, "/drop") {
		t.Errorf("a reader sees %d %s", resp.StatusCode, text)
	}
	for _, act := range []string{"/ui/filters/ip/drop", "/ui/filters/ip/clear", "/ui/filters/ip/writeback", "/ui/filters/ip/restore", "/ui/create"} {
		for _, cookie := range []string{reads, ""} {
			if resp, text := browse(t, r, cookie, "POST", act, "name=made"); resp.StatusCode != 403 && resp.StatusCode != 401 {
				t.Errorf("%s by a reader: %d %s", act, resp.StatusCode, text)
			}
		}
		for _, call := range []string{"GET /api/v1/filters", "DELETE /api/v1/filters/ip?confirm=ip", "POST /api/v1/filters/ip/clear?confirm=ip", "PUT /api/v1/filters/new"} {
			method, path, _ := strings.Cut(call, " ")
			if resp, text := browse(t, r, acts, method, path, ""); resp.StatusCode != 401 {
				t.Errorf("%s with a cookie: %d %s", call, resp.StatusCode, text)
			}
		}
	}
	if _, err := r.Engine.Lookup("ip"); err != nil || kept.Asked.Load() != nil {
		t.Fatalf("%v, %v", err, kept.Asked.Load())
	}
	r.Do("POST", "/api/v1/filter", `{"filter_typeid":"ip","uri_list":["a","b"]}`, "Authorization", "Bearer secret-filter", "Content-Type", apitest.JSONType)
	for _, act := range []struct{ path, form, asked string }{
		{"/ui/filters/ip/writeback", "", "writeback ip"}, {"/ui/filters/ip/restore", "version=v7", "restore ip v7"}, {"/ui/filters/ip/clear", "", ""},
		{"/ui/create", "name=made&kind=bloom&capacity=1000&error_rate=0.01", ""}, {"/ui/create", "name=short&kind=timing&expire=60", ""}, {"/ui/filters/uri/drop", "", ""},
	} {
		if resp, text := browse(t, r, acts, "POST", act.path, act.form); resp.StatusCode != 303 {
			t.Errorf("%s: %d %s", act.path, resp.StatusCode, text)
		}
		if asked := kept.Asked.Load(); act.asked != "" && (asked == nil || *asked != act.asked) {
			t.Errorf("%s asked for %v", act.path, asked)
		}
	}
	for _, number := range []string{"inf", "-Inf", "NaN", "1e999", "many"} { // no numbers of JSON
		if resp, text := browse(t, r, acts, "POST", "/ui/create", "name=odd&kind=timing&expire=60&capacity="+number); resp.StatusCode < 400 || !strings.Contains(text, "want a whole number") {
			t.Errorf("capacity %s: %d %s", number, resp.StatusCode, text)
		}
		if _, err := r.Engine.Lookup("odd"); err == nil {
			t.Errorf("capacity %s: a filter was made", number)
		}
	}
	if f, err := r.Engine.Lookup("ip"); err != nil || f.Stats().Items != 0 {
		t.Errorf("ip is not empty: %v", err)
	}
	if f, err := r.Engine.Lookup("made"); err != nil || f.Bound().Items != 1000 {
		t.Errorf("made: %v", err)
	}
	if _, err := r.Engine.Lookup("uri"); err == nil {
		t.Error("uri was not dropped")
	}
	if log := r.Log.String(); strings.Count(log, "admin action") < 6 || !strings.Contains(log, "action=drop filter=uri token=admin") || strings.Contains(log, "secret-") {
		t.Errorf("log: %s", log)
	}
	if resp, text := browse(t, r, acts, "POST", "/ui/create", "name=bad+name&capacity=many"); resp.StatusCode != 400 || !strings.Contains(text, `value="many"`) {
		t.Errorf("a bad filter: %d %s", resp.StatusCode, text)
	}
}

// Many browsers look on while filters come and go, and crawlers call.
func TestManyBrowsers(t *testing.T) {
	r := apitest.New(t)
	var all sync.WaitGroup
	for i := range 5 {
		all.Go(func() {
			for n := range 6 {
				for _, path := range []string{"/", "/?sort=rate", "/ui/filters/uri"} {
					if resp, text := browse(t, r, "", "GET", path, ""); resp.StatusCode != 200 {
						t.Errorf("%s: %d %s", path, resp.StatusCode, text)
					}
				}
				r.Put(fmt.Sprintf("made_%d_%d", i, n), `{"capacity":100}`)
				r.Post("/api/v1/filter", fmt.Sprintf(`{"filter_typeid":"uri","uri_list":["%d-%d"]}`, i, n))
				r.API.Status().Take()
				r.API.Status().Forget()
			}
		})
	}
	all.Wait()
	if _, text := browse(t, r, "", "GET", "/", ""); !strings.Contains(text, "of 32") {
		t.Errorf("in the end: %s", text)
	}
}

// A copy may take longer than a client may take to read.
func TestPageOfALongCopy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := &apitest.Backup{Hold: func(context.Context) error { time.Sleep(10 * time.Minute); return nil }}
		r := apitest.Piped(t, func(o *api.Options) { o.Backup = k })
		if resp, text := browse(t, r, "", "POST", "/ui/filters/ip/writeback", "a=b"); resp.StatusCode != 303 {
			t.Errorf("%d %s", resp.StatusCode, text)
		}
	})
}

// Names and reasons of what is damaged come from folders and files, and addresses from anybody.
func TestPagesOfHostileTexts(t *testing.T) {
	r, _ := newPageRig(t, []engine.Quarantined{{Name: pagetest.Hostile, Cause: errors.New(pagetest.Hostile)}}, func(o *api.Options) {
		o.Version, o.About.Store, o.About.RESP = pagetest.Hostile, pagetest.Hostile, pagetest.Hostile
		o.About.Archive = &pageArchive{copies: []backup.Underway{{Filter: pagetest.Hostile, Doing: pagetest.Hostile, Of: 1}}}
	})
	q, p := url.QueryEscape(pagetest.Hostile), url.PathEscape(pagetest.Hostile)
	for _, path := range []string{"/", "/?q=" + q, "/?sort=" + q + "&page=" + q, "/?page=-1", "/?page=99999999999999999999", "/?" + q, "/ui/filters/" + p, "/ui/filters/" + p + "/drop", "/ui/filters/uri?" + q} {
		if _, text := browse(t, r, "", "GET", path, ""); strings.Contains(text, "<script>alert") {
			t.Errorf("%s: %s", path, text)
		}
	}
	for _, path := range []string{"/ui/filters/" + p + "/drop", "/ui/filters/" + p + "/restore", "/ui/create"} {
		browse(t, r, "", "POST", path, "name="+q+"&version="+q+"&kind="+q+"&capacity="+q)
	}
}

// The history is of the last ten minutes, and ends with its filter.
func TestHistory(t *testing.T) {
	r := apitest.New(t)
	status := r.API.Status()
	for range 130 {
		r.Post("/api/v1/filter", `{"filter_typeid":"ip","uri_list":["a","b","c","d","e"]}`)
		status.Take()
	}
	if _, text := browse(t, r, "", "GET", "/ui/filters/ip", ""); !strings.Contains(text, "Seen before 1/s") || !strings.Contains(text, "at most 1 items a second") {
		t.Errorf("after 5 items each 5 seconds: %s", text)
	}
	if n := status.Sampled(); n != 2 {
		t.Errorf("%d filters have a history", n)
	}
	if err := r.Engine.Drop(t.Context(), "ip"); err != nil {
		t.Fatal(err)
	}
	status.Take()
	if n := status.Sampled(); n != 1 {
		t.Errorf("%d filters have a history", n)
	}
}
