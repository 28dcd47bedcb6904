//go:build linux

package browserengine

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/worker"
)

// A redirect waits for its turn, is resolved by the browser, and its URI is stored.
func TestRedirects(t *testing.T) {
	s := newSite(t, map[string]string{"/b/end": "<p>end<script>document.body.append(location.pathname)</script>", "/js": "<script>location.replace('/b/end')</script>"}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a/start" {
			http.Redirect(w, r, "../b/end", http.StatusMovedPermanently)
		}
		return r.URL.Path == "/a/start"
	})
	page := good(t, sharedEngine(t), s.work("/a/start"))
	if page.URI != s.URL+"/b/end" || !strings.Contains(page.text, "</p>/b/end") {
		t.Errorf("got %s: %s", page.URI, page.text)
	}
	if !slices.Equal(s.turns, []string{"/b/end"}) {
		t.Errorf("waited for the turns of %q", s.turns)
	}
	if page := good(t, sharedEngine(t), s.work("/js")); page.URI != s.URL+"/b/end" || !strings.Contains(page.text, "</p>/b/end") {
		t.Errorf("by a script: got %s: %s", page.URI, page.text)
	}
}

// A body that is not HTML is stored unchanged, and has no page for a script to run in.
func TestNoHTML(t *testing.T) {
	s := newSite(t, nil, func(w http.ResponseWriter, r *http.Request) bool {
		switch r.URL.Path {
		case "/pdf":
			w.Header().Set("Content-Type", "application/pdf")
			_, _ = io.WriteString(w, "%PDF-1.7 \x00\xff")
		case "/saved":
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Content-Disposition", "attachment; filename=x.html")
			_, _ = io.WriteString(w, "<p>as it came")
		case "/empty":
			w.WriteHeader(http.StatusNoContent)
		}
		return true
	})
	e := sharedEngine(t)
	if page := good(t, e, s.work("/pdf")); page.text != "%PDF-1.7 \x00\xff" || page.ContentType != "application/pdf" {
		t.Errorf("got %q, %+v", page.text, page.Result)
	}
	if page := good(t, e, s.work("/saved")); page.text != "<p>as it came" {
		t.Errorf("got %q", page.text)
	}
	if page := good(t, e, s.work("/empty")); page.text != "" || page.Status != 204 {
		t.Errorf("got %q, %+v", page.text, page.Result)
	}
	if f := bad(t, e, s.work("/pdf", func(s *download.Setting) { s.Script = "return 1" })); !f.Permanent || !strings.HasPrefix(f.Reason, "script: ") {
		t.Errorf("got %+v", f)
	}
}

// jobs counts the jobs that have cookies.
var jobs atomic.Int64

// Headers, cookies and bodies come from setting, page and job.
func TestHeadersAndCookies(t *testing.T) {
	page := `<p id=p></p><script>
document.cookie = 'ofscript=1; path=/';
p.textContent = 'agent ' + navigator.userAgent + ', cookies ' + document.cookie;
fetch('/post', {method: 'POST', headers: {'Content-Type': 'text/x', 'X-Own': 'y'}, body: 'text \u00e9'})</script>`
	var posted string
	s := newSite(t, map[string]string{"/": page}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/" {
			w.Header().Add("Set-Cookie", "seen=1; Path=/")
			w.Header().Add("Set-Cookie", "hidden=2; Path=/; HttpOnly")
		}
		if r.URL.Path == "/post" {
			text, _ := io.ReadAll(r.Body)
			posted = string(text)
		}
		return false
	})
	e := sharedEngine(t)
	set := func(s *download.Setting) {
		s.Cookie, s.KeepCookies = "own=a", true
		s.Headers = map[string]string{"User-Agent": "other/2", "Accept-Language": "fr", "X-Job": "j"}
	}
	job := jobs.Add(2) // used by this run alone
	of := func(job int64) worker.Work {
		w := s.work("/", set)
		w.Job.ID = job
		return w
	}
	got := good(t, e, of(job))
	if !strings.Contains(got.text, "agent other/2, cookies seen=1; ofscript=1") && !strings.Contains(got.text, "agent other/2, cookies ofscript=1; seen=1") {
		t.Errorf("the page is %s", got.text)
	}
	first, post := s.header("/"), s.header("/post")
	if first.Get("Cookie") != "own=a" || first.Get("User-Agent") != "other/2" || first.Get("Accept-Language") != "fr" || first.Get("X-Job") != "j" {
		t.Errorf("the document was asked for with %v", first)
	}
	if posted != "text \u00e9" || post.Get("Content-Type") != "text/x" || post.Get("X-Own") != "y" || post.Get("Origin") != s.URL {
		t.Errorf("posted %q with %v", posted, post)
	}
	for _, want := range []string{"own=a", "seen=1", "hidden=2", "ofscript=1"} {
		if strings.Count(post.Get("Cookie"), want) != 1 {
			t.Errorf("posted with the cookies %q", post.Get("Cookie"))
		}
	}
	// The job's next page has the server's cookies, another job has none, and no page has a script's.
	good(t, e, of(job))
	if got := s.header("/").Get("Cookie"); !strings.Contains(got, "seen=1") || !strings.Contains(got, "hidden=2") || strings.Contains(got, "ofscript") {
		t.Errorf("the next page has the cookies %q", got)
	}
	other := s.work("/", func(s *download.Setting) { s.KeepCookies = true })
	other.Job.ID = job + 1
	good(t, e, other)
	if got := s.header("/").Get("Cookie"); got != "" {
		t.Errorf("another job has the cookies %q", got)
	}
}

// A page of another origin can be read if its server allows that, also if the browser asks in advance.
func TestOtherOrigins(t *testing.T) {
	other := newSite(t, nil, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/open" {
			w.Header().Set("Access-Control-Allow-Origin", "*")
			w.Header().Set("Access-Control-Allow-Headers", "x-own")
		}
		fmt.Fprint(w, "data")
		return true
	})
	s := newSite(t, map[string]string{"/": "<title>t</title>"})
	page := good(t, sharedEngine(t), s.work("/", func(set *download.Setting) {
		set.Script = fmt.Sprintf(`const at = '%s', read = (path, o) => fetch(at + path, o).then(r => r.text(), e => 'no');
			return [await read('/open'), await read('/closed'), await read('/open', {headers: {'x-own': '1'}})]`, other.URL)
	}))
	if string(page.Records) != `["data","no","data"]`+"\n" {
		t.Errorf("got %s", page.Records)
	}
}
