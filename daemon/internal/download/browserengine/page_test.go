//go:build linux

package browserengine

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

const built = `<!doctype html><title>t</title><p id=a>before</p><script src=/more.js></script>
<script>fetch('/data.json').then(r => r.json()).then(d => { document.body.insertAdjacentHTML('beforeend', '<ul>' + d.map(x => '<li>' + x).join('') + '</ul>') })</script>
<img src=/picture.png>`

// The page as scripts have changed it is stored, as UTF-8, with the server's header for the document.
func TestPageThatScriptsBuild(t *testing.T) {
	s := newSite(t, map[string]string{"/": built, "/more.js": "document.getElementById('a').textContent = 'after \u00e9'"}, func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/data.json" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, `["one","two"]`)
		}
		w.Header().Set("X-From", "here")
		return r.URL.Path == "/data.json"
	})
	page := good(t, sharedEngine(t), s.work("/"))
	for _, want := range []string{"<!DOCTYPE html>", "after \u00e9", "<li>one</li><li>two</li>"} {
		if !strings.Contains(page.text, want) {
			t.Errorf("no %q in %s", want, page.text)
		}
	}
	if page.Status != 200 || page.URI != s.URL+"/" || page.ContentType != "text/html; charset=utf-8" || page.Encoding != "utf-8" || page.Header.Get("X-From") != "here" {
		t.Errorf("got %+v", page.Result)
	}
	if page.Records != nil || page.Crowded {
		t.Errorf("got records %q, crowded %v", page.Records, page.Crowded)
	}
	if s.was("GET /picture.png") != 0 {
		t.Error("a picture was fetched")
	}
	if agent := s.header("/data.json").Get("User-Agent"); agent != "tester/1" {
		t.Errorf("User-Agent %q", agent)
	}
	if s.firsts != 1 || len(s.turns) != 0 {
		t.Errorf("waited %d times for the first turn, and for %q", s.firsts, s.turns)
	}
}

func TestScriptOfTheJob(t *testing.T) {
	s := newSite(t, map[string]string{"/": "<title>t</title><p>x</p><script>window.state = {n: 3}</script>"})
	e := sharedEngine(t)
	with := func(script string) func(*download.Setting) {
		return func(s *download.Setting) { s.Script = script }
	}
	page := good(t, e, s.work("/", with(`
		const wait = ms => new Promise(done => setTimeout(done, ms));
		await wait(10);
		document.querySelector('p').textContent = 'by the script';
		return {title: document.title, n: window.state.n, list: [1, "<", null]};`)))
	if want := `{"title":"t","n":3,"list":[1,"<",null]}` + "\n"; string(page.Records) != want {
		t.Errorf("records %q, want %q", page.Records, want)
	}
	if !strings.Contains(page.text, "<p>by the script</p>") {
		t.Errorf("the document is as before: %s", page.text)
	}
	if page := good(t, e, s.work("/", with("document.title"))); page.Records != nil {
		t.Errorf("records %q of a script that returns nothing", page.Records)
	}
	for script, want := range map[string]string{
		"return null.x":                        "script: download_js:1:13: TypeError: Cannot read properties of null (reading 'x')",
		"let a = 1\n\n  throw new Error('no')": "script: download_js:3:9: Error: no",
		"throw 'plain'":                        `script: download_js: Uncaught (in promise) "plain"`,
		"return NaN":                           "script: download_js: returns NaN, which JSON does not have",
		"const a = {}; a.a = a; return a":      "script: download_js: Object reference chain is too long",
		"return (":                             "script: download_js:2:1: SyntaxError: Unexpected token '}'",
	} {
		f := bad(t, e, s.work("/", with(script)))
		if f.Reason != want || f.Permanent != strings.Contains(want, "SyntaxError") {
			t.Errorf("%s: got %q, permanent %v, want %q", script, f.Reason, f.Permanent, want)
		}
	}
}
