// Package page is what the pages of our programs share: the layout and its assets, languages, the log-in of a browser, the
// confirmation of actions, and numbers, bars and lines as people read them.
//
// A page is rendered here, with html/template, and is complete without JavaScript; page.js only replaces its parts from time
// to time. Charts are SVG that is made here: they need no library in the browser and no exception in the
// Content-Security-Policy. What a page does, it does by a call of the program's API with the token that was
// logged in, so that scopes, limits and audit are those of the API. The API itself knows no cookies.
//
// The package opens no sockets and knows neither filters nor jobs.
package page

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/access"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Prefix is where the pages are, besides /.
const Prefix = "/ui/"

// policy lets a page load what this program serves, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// formBytes bounds what a form sends.
const formBytes = 8 << 10

// Options are what the pages of a program need. All but Now are required.
type Options struct {
	Program, Version string
	// Templates has a file NAME.html for each page NAME, which defines the templates title and body.
	Templates fs.FS
	// Texts are those that the templates name, besides those of this package.
	Texts Texts
	Guard *access.Guard
	// Read is the scope that every page needs.
	Read string
	// API answers the calls that actions make.
	API http.Handler
	// Explain says with which status an error is shown, and in which words.
	Explain func(error) (status int, title, detail string)
	Log     func(err error) // is told of errors that are the program's own
	Changed func()          // is called after an action, so that the next page shows what it has done
	Now     func() time.Time
}

// Site is the pages of a program. It is an http.Handler, safe for concurrent use once all pages are added.
type Site struct {
	Options
	mux      *http.ServeMux
	pages    [languages]map[string]*template.Template // by name
	assets   map[string]asset                         // by path
	sessions sessions
	origins  *http.CrossOriginProtection
}

type asset struct {
	kind string
	text []byte
}

//go:embed assets
var assets embed.FS

// New makes a Site without pages but those of the log-in. It panics if a template is malformed, or names a text that
// there is none of.
func New(o Options) *Site {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Site{Options: o, mux: http.NewServeMux(), assets: map[string]asset{}, origins: http.NewCrossOriginProtection()}
	for name, kind := range map[string]string{"page.css": "text/css; charset=utf-8", "page.js": "text/javascript; charset=utf-8"} {
		text, err := assets.ReadFile("assets/" + name)
		if err != nil {
			panic(err)
		}
		sum := sha256.Sum256(text)
		path := Prefix + base64.RawURLEncoding.EncodeToString(sum[:6]) + "-" + name
		s.assets[path] = asset{kind, text}
		s.mux.HandleFunc("GET "+path, s.serveAsset)
	}
	s.parse()
	s.handle("GET "+Prefix+"login", "", func(v *View) error { return v.show(http.StatusOK, "login") })
	s.handle("POST "+Prefix+"login", "", s.login)
	s.handle("POST "+Prefix+"logout", "", s.logout)
	s.handle(Prefix, "", func(*View) error {
		return &problemdetail.Error{Code: problemdetail.UnknownPath}
	})
	return s
}

func (s *Site) assetPath(name string) string {
	for path := range s.assets {
		if strings.HasSuffix(path, "-"+name) {
			return path
		}
	}
	panic("no asset " + name)
}

func (s *Site) serveAsset(w http.ResponseWriter, r *http.Request) {
	a := s.assets[r.URL.Path]
	h := w.Header()
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable") // the path names the contents
	_, _ = w.Write(a.text)                                        // the browser may have left
}

// Page adds a page: the answer to GET of a pattern of net/http, from the template name. Its data are what data returns.
func (s *Site) Page(pattern, name string, data func(v *View) (any, error)) {
	s.handle("GET "+pattern, s.Read, func(v *View) (err error) {
		if v.Data, err = data(v); err != nil {
			return err
		}
		return v.show(http.StatusOK, name)
	})
}

// WantsHTML reports whether a request comes from somebody who reads pages rather than text: a browser names text/html.
func WantsHTML(r *http.Request) bool {
	for _, part := range strings.Split(strings.Join(r.Header["Accept"], ","), ",") {
		kind, params, _ := strings.Cut(part, ";")
		if strings.EqualFold(strings.TrimSpace(kind), "text/html") {
			q := strings.ReplaceAll(params, " ", "")
			return q != "q=0" && !strings.HasPrefix(q, "q=0.0")
		}
	}
	return false
}

// ServeHTTP answers a request whose page of origin the Guard has passed.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms would send the Origin null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Vary", "Accept, Accept-Language, Cookie")
	s.mux.ServeHTTP(w, r)
}

// handle answers requests that have the scope; "" is for everybody.
func (s *Site) handle(pattern, scope string, do func(v *View) error) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		v := &View{Program: s.Program, Version: s.Version, Request: r, site: s, w: w, language: languageOf(r)}
		err := s.fromHere(r)
		if err == nil {
			err = v.admit(scope)
		}
		if err == nil && v.Who != "" && r.Method != http.MethodPost { // what a POST does is a call, which is counted itself
			if err = s.Guard.Enter(v.Who); err == nil {
				defer s.Guard.Leave(v.Who)
			}
		}
		if err == nil {
			err = do(v)
		}
		if err != nil {
			v.fail(err)
		}
	})
}

// fromHere refuses what may change something and does not come from a page of this program. Browsers say with each such
// request where it comes from, and pages cannot change that; what says nothing is not a browser.
func (s *Site) fromHere(r *http.Request) error {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	if r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == "" {
		return &problemdetail.Error{Code: problemdetail.CrossSite, Detail: "neither Origin nor Sec-Fetch-Site is sent: programs call the API"}
	}
	if err := s.origins.Check(r); err != nil {
		return &problemdetail.Error{Code: problemdetail.CrossSite, Detail: err.Error()}
	}
	return nil
}

// View is one request for a page, and what its template sees.
type View struct {
	Program, Version string
	Request          *http.Request
	Data             any
	Who              string // the name of the token, "" without one
	Status           int    // of an error, 0: none
	Title, Detail    string // of an error

	site     *Site
	w        http.ResponseWriter
	language int
	secret   string // the token; "" without one
	cookie   bool   // it was logged in
}

// errLogin asks for a token.
var errLogin = errors.New("a token is needed")

// admit checks the token of the request's header, or that of its session.
func (v *View) admit(scope string) error {
	g := v.site.Guard
	if !g.AsksTokens() {
		return nil
	}
	call := access.Call{Request: v.Request, Path: Prefix, Scope: scope}
	v.secret, v.cookie = v.site.sessions.secret(sessionOf(v.Request, v.site.Program), v.site.Now())
	if scope == "" {
		return nil
	}
	who, present, err := g.Header(call)
	if present {
		v.Who, v.cookie = who, false
		_, v.secret, _ = strings.Cut(v.Request.Header.Get("Authorization"), " ")
		v.secret = strings.TrimSpace(v.secret)
		return err
	}
	if !v.cookie || !g.May(v.secret, v.site.Read) {
		return errLogin // also if the token was taken back meanwhile
	}
	v.Who, err = g.Token(call, v.secret)
	return err
}

// May reports whether the caller has a scope.
func (v *View) May(scope string) bool { return v.site.Guard.May(v.secret, scope) }

// LoggedIn reports whether there is a session that can end.
func (v *View) LoggedIn() bool { return v.cookie && v.Who != "" }

// Tokens reports whether calls need a token.
func (v *View) Tokens() bool { return v.site.Guard.AsksTokens() }

// Here is the path of the page with its query, for a link that loads it again.
func (v *View) Here() string { return v.Request.URL.RequestURI() }

// Done is the key of the action that has led here, "" for none.
func (v *View) Done() string {
	key := v.Request.URL.Query().Get("done")
	if _, known := v.site.Texts["done."+key]; !known {
		return ""
	}
	return "done." + key
}

// Query returns a parameter of the address.
func (v *View) Query(name string) string { return v.Request.URL.Query().Get(name) }

// With is the address of this page with another value of a parameter, "" for none, and without those that belong to it.
func (v *View) With(name, value string, without ...string) string {
	q := v.Request.URL.Query()
	for _, drop := range append(without, "done", name) {
		q.Del(drop)
	}
	if value != "" {
		q.Set(name, value)
	}
	to := url.URL{Path: v.Request.URL.Path, RawQuery: q.Encode()}
	return to.RequestURI()
}

// Insecure reports whether a token would cross a network in plain text.
func (v *View) Insecure() bool {
	host := (&url.URL{Host: v.Request.Host}).Hostname()
	return !overTLS(v.Request) && host != "localhost" && !strings.HasPrefix(host, "127.") && host != "::1"
}

// Address is where the caller reaches the program.
func (v *View) Address() string {
	scheme := "http"
	if overTLS(v.Request) {
		scheme = "https"
	}
	return scheme + "://" + cmp.Or(v.Request.Host, "127.0.0.1")
}

// T is a text in the language of the caller.
func (v *View) T(key string, args ...any) string { return v.site.text(v.language, key, args...) }

func (v *View) show(status int, name string) error {
	var out bytes.Buffer
	if err := v.site.pages[v.language][name].ExecuteTemplate(&out, "layout", v); err != nil {
		return err
	}
	h := v.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	v.w.WriteHeader(status)
	_, _ = v.w.Write(out.Bytes()) // the browser may have left
	return nil
}

// explain puts an error into words, and into the head of the answer.
func (v *View) explain(err error) {
	v.Status, v.Title, v.Detail = v.site.Explain(err)
	known, ok := errors.AsType[*problemdetail.Error](err)
	if ok && known.Header[0] != "" {
		v.w.Header().Set(known.Header[0], known.Header[1])
	}
	if ok && known.Code == problemdetail.Forbidden {
		v.Detail += v.T("forbidden")
	}
}

// fail shows an error, or the form for a token.
func (v *View) fail(err error) {
	if errors.Is(err, errLogin) {
		v.w.Header().Set("WWW-Authenticate", `Bearer realm="`+v.Program+`"`)
		err = v.show(http.StatusUnauthorized, "login")
	} else {
		v.explain(err)
		if v.Status == http.StatusInternalServerError {
			v.site.Log(err)
		}
		err = v.show(v.Status, "error")
	}
	if err != nil { // the template of the error itself
		v.site.Log(err)
		http.Error(v.w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
	}
}
