package form

import (
	"context"
	"errors"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form/board"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/guard"
)

// file writes a file of steps, in which BASE stands for the server, with a secret beside it.
func file(t *testing.T, base, text string) *File {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "steps.yaml")
	if err := errors.Join(os.WriteFile(path, []byte(strings.ReplaceAll(text, "BASE", base)), 0o600),
		os.WriteFile(filepath.Join(dir, "password"), []byte(board.Password+"\n"), 0o600),
		os.WriteFile(filepath.Join(dir, "附件.txt"), []byte("attached"), 0o600)); err != nil {
		t.Fatal(err)
	}
	f, err := Read(path, func(name string) (string, bool) { return board.User, name == "BOARD_USER" })
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func session(t *testing.T) Session {
	t.Helper()
	f := fetch.New(fetch.Options{Guard: guard.New(guard.Options{AllowPrivate: true}), SpillDir: t.TempDir()})
	t.Cleanup(f.Close)
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return Session{Fetch: f.Fetch, Jar: jar}
}

const login = `
  - page: BASE/login.php
    fields: {username: {env: BOARD_USER}, password: {file: password}}
    check: {text: 退出, no_text: 密码错误, uri: /index.php, cookie: sid}
`

// TestBoard logs in to a board that accepts only GBK, posts a text, changes it, and reads it back.
func TestBoard(t *testing.T) {
	t.Parallel()
	b := board.New(t)
	f := file(t, b.URL, "steps:"+login+`
  - page: /post.php
    form: {id: post}
    fields: {title: 你好 €, text: "第一行\n丂 and \"quotes\" 🎈\n", section: 闲聊, sticky: true, attachment: {upload: 附件.txt}}
    check: {text: 第一行, uri: read.php?id=0}
  - page: post.php?id=0
    fields: {title: "改过了 ÿ"}
    check: {text: 改过了 ÿ}
  - page: read.php?id=0
    check: {text: "quotes\" 🎈"}
`)
	s := session(t)
	var sent []string
	s.Done = func(a Answer) { sent = append(sent, a.Sent) }
	last, err := s.Run(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(sent, ","); got != "post,post,post," || last.Encoding != "gb18030" || !strings.Contains(last.Text, "<title>改过了 &#255;</title>") {
		t.Errorf("sent %q; the last page, %s: %s", got, last.Encoding, last.Text)
	}
	want := board.Post{Title: "改过了 &#255;", Text: "第一行\r\n丂 and \"quotes\" &#127880;\r\n", Section: "2", Sticky: false}
	if len(b.Posts) != 1 || b.Posts[0] != want {
		t.Errorf("the board has %+v, want %+v", b.Posts, want)
	}
	for part, i := range map[string]int{"&password=%C3%DC%C2%EB+%2B%26%3D%25secret&keep=1&loginsubmit=%B5%C7+%C2%BC": 0, "filename=\"\xb8\xbd\xbc\xfe.txt\"\r\nContent-Type: text/plain": 1,
		"name=\"sticky\"\r\n\r\non\r\n": 1, "name=\"section\"\r\n\r\n1\r\n": 1, "filename=\"\"\r\nContent-Type: application/octet-stream\r\n\r\n\r\n": 2} {
		if !strings.Contains(b.Bodies[i], part) {
			t.Errorf("body %d has no %q: %q", i, part, b.Bodies[i])
		}
	}
}

// TestBoardKnowsUs: with the cookies of an earlier run, there is no login form.
func TestBoardKnowsUs(t *testing.T) {
	t.Parallel()
	b := board.New(t)
	f := file(t, b.URL, "cookies: kept\nsteps:"+strings.Replace(login, "login.php", "login.php?again", 1))
	for run, want := range []string{"post", ""} {
		jar, save, err := f.OpenJar()
		if err != nil {
			t.Fatal(err)
		}
		s := session(t)
		s.Jar = jar
		last, err := s.Run(t.Context(), f)
		if err := errors.Join(err, save()); err != nil {
			t.Fatal(err)
		}
		if last.Sent != want || !strings.HasSuffix(last.URI, "/index.php") {
			t.Errorf("run %d: sent %q, at %s", run, last.Sent, last.URI)
		}
	}
	text, err := os.ReadFile(f.CookiesPath())
	if err != nil || !strings.Contains(string(text), `"name":"sid"`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestBoardRefuses(t *testing.T) {
	t.Parallel()
	b := board.New(t)
	for text, want := range map[string]string{
		"page: BASE/login.php\nfields: {username: x, password: topsecret}\ncheck: {text: 退出}\n":                      `steps.yaml:1: BASE/login.php?do=1: check: the page has no "退出"`,
		"page: BASE/login.php\nfields: {user: x}\n":                                                                  "fields.user (line 2): the form has no field of that name; it has formhash, username, password, keep, hide, go, loginsubmit",
		"page: BASE/login.php\nform: {name: other}\n":                                                                `no form of the page is meant by form; there are {index: 1, id: "", name: "", action: "/search"}, {index: 2`,
		"page: BASE/login.php\nsubmit: press\n":                                                                      `submit: the form has no such button that can be pressed; there are {name: "go"`,
		"page: BASE/login.php\nencoding: utf-8\nfields: {username: {env: BOARD_USER}, password: {file: password}}\n": "400 Bad Request",
		"page: BASE/read.php?id=7\ncheck: {uri: read.php}\n":                                                         `check: its URI has no "read.php"`,
		"steps:" + login + "\n  - page: read.php?id=7\n":                                                             "read.php?id=7: the host answered with an error: 404 Not Found",
		"steps:" + login + "\n  - {page: post.php, fields: {section: none}}\n":                                       `fields.section (line 6): there is no such option: want one of "1", "2"`,
		"steps:" + login + "\n  - {page: post.php, fields: {admin: 2}}\n":                                            "the field is disabled",
		"steps:" + login + "\n  - {page: post.php, extra: {admin: 2}}\n":                                             "403 Forbidden",
		"steps:" + login + "\n  - {page: post.php, fields: {attachment: text}}\n":                                    "the field takes files",
	} {
		_, err := session(t).Run(t.Context(), file(t, b.URL, text))
		if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(want, "BASE", b.URL)) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s\n%v, want %s", text, err, want)
		}
	}
}

// A form with a password is sent to no other site, and not where everyone can read it.
func TestSecretsStay(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the other site was called") }))
	defer other.Close()
	own := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			http.Redirect(w, r, other.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/get":
			_, _ = w.Write([]byte("<form><input type=password name=p></form>"))
		case r.URL.Path == "/button":
			_, _ = w.Write([]byte("<form method=post><input type=password name=p><button formmethod=get>x</button></form>"))
		default:
			_, _ = w.Write([]byte("<form method=post><input type=password name=p></form>"))
		}
	}))
	defer own.Close()
	for path, want := range map[string]string{"/": "what is sent to", "/get": "as a part of a URI", "/button": "as a part of a URI"} {
		_, err := session(t).Run(t.Context(), file(t, own.URL, "page: BASE"+path+"\nfields: {p: topsecret}\n"))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "topsecret") {
			t.Errorf("%s: %v, want %s", path, err, want)
		}
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := session(t).Run(ctx, file(t, board.New(t).URL, "page: BASE/\n")); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
