package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// The URIs of a job can come from a URL, which the command reads.
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
	// A missing list leaves nothing behind, and the error for a truncated one says what to do.
	if code, _, errOut := p.run("", "job", "add", job("none", "/none.txt")); code != 1 || !strings.Contains(errOut, "/none.txt: 404 Not Found") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut := p.run("", "job", "show", "none"); code != 1 || !strings.Contains(errOut, "unknown_job") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut := p.run("", "job", "uris", "news", lists.URL+"/cut.txt"); code != 1 || !strings.Contains(errOut, "/cut.txt: unexpected EOF; some of its URIs may have been added") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	p.settled("news", 6)
	// Names are completed.
	for _, command := range []string{"job show", "tasks", "logs", "data", "data body"} {
		var out, errOut bytes.Buffer
		args := append(append([]string{"__complete"}, strings.Fields(command)...), "--server", "http://"+p.addr, "")
		if code := run(t.Context(), args, nil, &out, &errOut); code != 0 || !strings.Contains(out.String(), "news\ton\n") {
			t.Errorf("completion of %s: %s%s", command, &out, &errOut)
		}
	}
}

// check also reads the file of URIs, and invalid URIs can be skipped.
func TestInvalidURIs(t *testing.T) {
	t.Parallel()
	s, dir, p := newSite(t), t.TempDir(), start(t)
	write(t, dir, "uris.txt", "\ufeff"+s.pages(2)+"\nnothing\r\n")
	job := write(t, dir, "news.yaml", "name: news\nuris: uris.txt\nsetting: {delay: 0s}\n")
	var errOut bytes.Buffer
	if code := run(t.Context(), []string{"job", "check", job}, nil, io.Discard, &errOut); code != 1 || !strings.Contains(errOut.String(), `uris.txt:4: "nothing": want http://`) {
		t.Errorf("exit code %d: %s", code, &errOut)
	}
	if code, _, errOut := p.run("", "job", "add", job); code != 1 || !strings.Contains(errOut, `line 4: "nothing": want http://`) || !strings.Contains(errOut, "hint: correct it") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if out := p.must("", "job", "uris", "news", "--skip-invalid", filepath.Join(dir, "uris.txt")); !strings.Contains(out, "3 URIs: 0 added, 0 seen by its filter, 2 there before, 1 invalid") {
		t.Errorf("%s", out)
	}
	p.settled("news", 2)
}
