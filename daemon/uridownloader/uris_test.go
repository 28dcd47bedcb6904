package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The URIs of a job can be a URL, which is read by the command.
func TestURIsOfAURL(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	lists := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/list.txt":
			_, _ = fmt.Fprint(w, s.pages(6))
		case "/cut.txt":
			w.Header().Set("Content-Length", "100000")
			_, _ = fmt.Fprint(w, strings.ReplaceAll(s.pages(3), "/page/", "/cut/"))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(lists.Close)
	dir := t.TempDir()
	p := start(t)
	job := func(name, list string) string {
		return write(t, dir, name+".yaml", fmt.Sprintf("name: %s\nuris: %s%s\nsetting: {delay: 0s}\n", name, lists.URL, list))
	}
	if out := p.must("", "job", "add", job("news", "/list.txt")); !strings.Contains(out, "6 URIs: 6 added") {
		t.Errorf("%s", out)
	}
	if out := p.must("", "job", "uris", "news", lists.URL+"/list.txt"); !strings.Contains(out, "0 added, 0 seen by its filter, 6 there before") {
		t.Errorf("%s", out)
	}
	// A list that is not there leaves nothing behind, and one that is cut says what to do.
	if code, _, errOut := p.run("", "job", "add", job("none", "/none.txt")); code != 1 || !strings.Contains(errOut, "/none.txt: 404 Not Found") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut := p.run("", "job", "show", "none"); code != 1 || !strings.Contains(errOut, "unknown_job") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut := p.run("", "job", "uris", "news", lists.URL+"/cut.txt"); code != 1 || !strings.Contains(errOut, "/cut.txt: unexpected EOF; some of its URIs may be added") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	p.settled("news", 6)
	// Names are completed.
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"__complete", "job", "show", "--server", "http://" + p.addr, ""}, nil, &out, &errOut); code != 0 || !strings.Contains(out.String(), "news\ton\n") {
		t.Errorf("completion: %s%s", &out, &errOut)
	}
}
