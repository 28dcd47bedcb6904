// Package board is a bulletin board for tests, of a common kind: all of it is GBK, including what
// is sent to it, and tokens guard its forms. It keeps everything in memory.
package board

import (
	"crypto/rand"
	"fmt"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"golang.org/x/text/encoding/simplifiedchinese"
)

// Password is the password of User.
const (
	User     = "小明"
	Password = "密码 +&=%secret"
)

// Board is a running server.
type Board struct {
	*httptest.Server

	mu       sync.Mutex
	sessions map[string]*session // by cookie
	Posts    []Post
	Bodies   []string // what was posted, as it came
	Sent     []http.Header
}

type session struct {
	token string
	in    bool
}

// Post is a text of the board. Both fields are UTF-8, and as they came: with &#N; for what GBK cannot hold.
type Post struct {
	Title, Text, Section string
	Sticky               bool
	Attachment           string
}

// New starts a board, which stops when the test ends.
func New(t testing.TB) *Board {
	b := &Board{sessions: map[string]*session{}}
	b.Server = httptest.NewServer(http.HandlerFunc(b.serve))
	t.Cleanup(b.Close)
	return b
}

func (b *Board) serve(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.session(w, r)
	var form map[string][]string
	if r.Method == http.MethodPost {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		b.Bodies, b.Sent = append(b.Bodies, string(text)), append(b.Sent, r.Header)
		if form, err = read(r.Header.Get("Content-Type"), text); err != nil {
			page(w, http.StatusBadRequest, "错误", html.EscapeString(err.Error()))
			return
		}
		if r.Header.Get("Origin") != b.URL || !strings.HasPrefix(r.Header.Get("Referer"), b.URL) || first(form["formhash"]) != s.token {
			page(w, http.StatusForbidden, "错误", "令牌无效")
			return
		}
	}
	switch path := r.URL.Path; {
	case path == "/login.php":
		b.login(w, r, s, form)
	case path == "/logout":
		s.in = false
		page(w, http.StatusOK, "再见", "已退出")
	case path == "/robots.txt":
		http.NotFound(w, r)
	case !s.in:
		http.Redirect(w, r, "/login.php", http.StatusFound)
	case path == "/post.php":
		b.post(w, r, s, form)
	case path == "/read.php":
		b.read(w, r)
	default:
		page(w, http.StatusOK, "首页", `欢迎，`+User+` <a href="/logout">退出</a> <a href="/post.php">发帖</a>`)
	}
}

// session returns the session of the cookie, a new one if there is none.
func (b *Board) session(w http.ResponseWriter, r *http.Request) *session {
	if c, err := r.Cookie("sid"); err == nil && b.sessions[c.Value] != nil {
		return b.sessions[c.Value]
	}
	id := rand.Text()
	b.sessions[id] = &session{token: rand.Text()}
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: id, Path: "/", HttpOnly: true})
	return b.sessions[id]
}

func (b *Board) login(w http.ResponseWriter, r *http.Request, s *session, form map[string][]string) {
	if s.in {
		http.Redirect(w, r, "/index.php", http.StatusFound)
		return
	}
	if form == nil {
		page(w, http.StatusOK, "登录", `<form action=/search><input name=q><input type=submit></form>
<table><form name="login" method="post" action="login.php?do=1"><tr><td>
<input type="hidden" name="formhash" value="`+s.token+`"><input name="username"></td><td><input type="password" name="password">
<input type="checkbox" name="keep" value="1" checked><input type="checkbox" name="hide" value="1"></td></tr>
<tr><td><input type="image" name="go" src="x.gif"><input type="submit" name="loginsubmit" value="登 录"></td></tr></form></table>`)
		return
	}
	if first(form["username"]) != User || first(form["password"]) != Password || first(form["loginsubmit"]) != "登 录" || first(form["keep"]) != "1" || form["hide"] != nil || form["go.x"] != nil {
		page(w, http.StatusOK, "登录", "密码错误")
		return
	}
	s.in = true
	http.Redirect(w, r, "/index.php", http.StatusFound)
}

// post shows the form for a new text, or for the text with an id, and accepts what it sends.
func (b *Board) post(w http.ResponseWriter, r *http.Request, s *session, form map[string][]string) {
	id := len(b.Posts)
	if text := r.URL.Query().Get("id"); text != "" {
		if _, err := fmt.Sscan(text, &id); err != nil || id < 0 || id >= len(b.Posts) {
			http.NotFound(w, r)
			return
		}
	}
	if form == nil {
		var old Post
		if id < len(b.Posts) {
			old = b.Posts[id]
		}
		page(w, http.StatusOK, "发帖", `<form id="post" method="post" enctype="multipart/form-data"><input type=hidden name=formhash value="`+s.token+`">
<input name="title" value="`+html.EscapeString(old.Title)+`"><select name="section"><option value="1">闲聊<option value="2" selected>技术</select>
<textarea name="text">
`+html.EscapeString(old.Text)+`</textarea><input type=file name=attachment><label><input type=checkbox name=sticky>置顶</label>
<fieldset disabled><input name="admin" value="1"></fieldset><button name=preview value=1 type=button>预览</button><button>发表</button></form>`)
		return
	}
	if form["admin"] != nil || form["preview"] != nil {
		page(w, http.StatusForbidden, "错误", "无权")
		return
	}
	p := Post{first(form["title"]), first(form["text"]), first(form["section"]), first(form["sticky"]) == "on", first(form["attachment"])}
	if id == len(b.Posts) {
		b.Posts = append(b.Posts, p)
	} else {
		b.Posts[id] = p
	}
	http.Redirect(w, r, fmt.Sprintf("/read.php?id=%d", id), http.StatusSeeOther)
}

// read shows a text. Like many boards it leaves &#N; unchanged, so that browsers show the character.
func (b *Board) read(w http.ResponseWriter, r *http.Request) {
	id := 0
	if _, err := fmt.Sscan(r.URL.Query().Get("id"), &id); err != nil || id < 0 || id >= len(b.Posts) {
		http.NotFound(w, r)
		return
	}
	shown := func(s string) string { return strings.ReplaceAll(html.EscapeString(s), "&amp;#", "&#") }
	p := b.Posts[id]
	page(w, http.StatusOK, shown(p.Title), fmt.Sprintf("<pre>%s</pre><i>%s</i><b>%v</b>%s", shown(p.Text), p.Section, p.Sticky, shown(p.Attachment)))
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

func page(w http.ResponseWriter, status int, title, body string) {
	text, err := simplifiedchinese.GBK.NewEncoder().String(`<html><head><meta http-equiv="Content-Type" content="text/html; charset=gb2312"><title>` + title + "</title></head><body>" + body + "</body></html>")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

// read decodes a form in GBK; invalid GBK is an error.
func read(contentType string, body []byte) (map[string][]string, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	var raw map[string][]string
	if kind == "multipart/form-data" {
		all, err := multipart.NewReader(strings.NewReader(string(body)), params["boundary"]).ReadForm(1 << 20)
		if err != nil {
			return nil, err
		}
		raw = all.Value
		for name, files := range all.File {
			f, err := files[0].Open()
			if err != nil {
				return nil, err
			}
			text, err := io.ReadAll(f)
			if err != nil {
				return nil, err
			}
			raw[name] = []string{files[0].Filename + ":" + string(text)}
		}
	} else if raw, err = url.ParseQuery(string(body)); err != nil {
		return nil, err
	}
	form := map[string][]string{}
	for name, values := range raw {
		for _, value := range values {
			text, err := simplifiedchinese.GBK.NewDecoder().String(value)
			if err != nil || strings.Contains(text, "\ufffd") {
				return nil, fmt.Errorf("field %s is no GBK: %q", name, value)
			}
			form[name] = append(form[name], text)
		}
	}
	return form, nil
}
