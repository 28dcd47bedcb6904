package http_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	api "github.com/cr-clawer/urifilter/daemon/internal/front/http"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/apitest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/pagetest"
)

// pageStore is a store that may be away, with filters in quarantine.
type pageStore struct {
	engine.Store
	away atomicError
	bad  []engine.Quarantined
}

func (s *pageStore) Ready(ctx context.Context) error {
	if err := s.away.get(); err != nil {
		return err
	}
	return s.Store.Ready(ctx)
}

func (s *pageStore) Quarantined() []engine.Quarantined { return s.bad }

func (s *pageStore) PutAway(context.Context, engine.Quarantined) (string, error) {
	return "", errors.New("not in this test")
}

type atomicError struct{ of chan error }

func (e *atomicError) get() error {
	select {
	case err := <-e.of:
		e.of <- err
		return err
	default:
		return nil
	}
}

// pageArchive is an archive as the page sees it.
type pageArchive struct {
	connected bool
	copies    []backup.Underway
}

func (a *pageArchive) Connected() bool             { return a.connected }
func (a *pageArchive) Underway() []backup.Underway { return a.copies }

func newPageRig(t *testing.T, bad []engine.Quarantined, change ...func(*api.Options)) (*apitest.Rig, *pageStore) {
	t.Helper()
	on, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	store := &pageStore{Store: on, bad: bad, away: atomicError{make(chan error, 1)}}
	r := apitest.Over(t, store, change...)
	t.Cleanup(func() {
		if err := on.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, store
}

// lively makes filters of all kinds, and ten minutes of history.
func lively(t *testing.T, r *apitest.Rig, filters int) {
	t.Helper()
	kinds := []string{`{"capacity":200000}`, `{"kind":"exact"}`, `{"kind":"timing","expire":86400}`, `{"capacity":50000,"on_full":"warn","error_rate":0.001}`, `{"kind":"scaling","capacity":50000,"error_rate":0.01}`}
	names := []string{"news_pages", "jobs", "recent", "shop:products", "legacy.bf"}
	for i := range filters {
		name := names[i%len(names)]
		if i >= len(names) {
			name = fmt.Sprintf("site_%03d", i)
		}
		if a := r.Put(name, kinds[i%len(kinds)]); a.Status != 201 {
			t.Fatalf("%d %s", a.Status, a.Body)
		}
	}
	for step := range 125 {
		for i := range min(filters, len(names)) {
			n := 160 + 20*i + int(100*math.Sin(float64(step)/float64(6+5*i)))
			var lines strings.Builder
			if err := apitest.Numbered(&lines, step*120, n); err != nil {
				t.Fatal(err)
			}
			if a := r.Post("/api/v1/filter?filter_typeid="+names[i], lines.String(), "Content-Type", apitest.TextType); a.Status != 200 {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
		}
		r.API.Status().Take()
	}
}

// deafArchive is an archive that does not answer, so that filters wait for it.
type deafArchive struct{ engine.Archive }

var errDeaf = errors.New("archive mongodb 192.0.2.8:27017: no server answers")

func (deafArchive) Newest(context.Context) ([]engine.Archived, error) { return nil, errDeaf }

// TestSystemPages opens the pages in a browser, in all widths, colours and languages and in good and bad states: axe-core
// finds nothing, the browser complains of nothing, and nothing is wider than the window. With
// go test -artifacts -outputdir DIR, DIR has the pictures.
func TestSystemPages(t *testing.T) {
	browser, axe := pagetest.Start(t), pagetest.Axe(t)
	archive := &pageArchive{connected: true, copies: []backup.Underway{{Filter: "news_pages", Doing: "restore", Done: 3, Of: 8}}}
	about := func(o *api.Options) {
		o.About.Store, o.About.RESP, o.About.WritebackEvery, o.About.Archive = "embedded, durability always", "127.0.0.1:6380", time.Hour, archive
	}
	looks := map[string]pagetest.Look{
		"1440-light": {Width: 1440}, "800-dark": {Width: 800, Dark: true}, "390-dark-zh": {Width: 390, Dark: true, Language: "zh-CN"},
	}
	shoot := func(at, state string, paths map[string]string) {
		t.Helper()
		for look, l := range looks {
			tab := browser.Tab(l)
			for name, path := range paths {
				tab.Open(at + path)
				tab.Shoot(strings.Join([]string{state, name, look}, "-"))
				tab.Accessible(state+" "+name+" "+look, axe)
				if wrong := tab.Complaints(); len(wrong) > 0 {
					t.Errorf("%s %s: the browser complains: %q", state, path, wrong)
				}
			}
		}
	}
	list := map[string]string{"list": "/"}

	waiting := func() string {
		on, err := embedded.Open(embedded.Options{Dir: t.TempDir(), Durability: "none", Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.Open(t.Context(), on, engine.Settings{Archive: deafArchive{}, Log: slog.New(slog.DiscardHandler), Filters: []engine.Spec{
			{ID: 1, Name: "news_pages", Kind: "bloom", Params: configs.Bloom{Capacity: 10_000, ErrorRate: 1e-4, OnFull: "grow"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.Reconcile(t.Context()); !errors.Is(err, errDeaf) {
			t.Fatal(err)
		}
		o := apitest.Options(t, e, slog.New(slog.DiscardHandler))
		about(&o)
		server := httptest.NewServer(api.New(o))
		t.Cleanup(func() {
			server.Close()
			if err := on.Close(); err != nil {
				t.Error(err)
			}
		})
		return server.URL
	}
	shoot(waiting(), "restoring", list)

	none, _ := newPageRig(t, nil)
	for _, name := range []string{"uri", "ip"} {
		if err := none.Engine.Drop(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	shoot(none.HTTP.URL, "none", list)

	few, store := newPageRig(t, nil, about)
	lively(t, few, 5)
	over := ""
	for batch := range 6 {
		var lines strings.Builder
		if err := apitest.Numbered(&lines, 1_000_000+batch*10_000, 10_000); err != nil {
			t.Fatal(err)
		}
		over = lines.String()
		few.Post("/api/v1/filter?filter_typeid=shop:products", over, "Content-Type", apitest.TextType)
	}
	few.Put("small", `{"capacity":10000,"on_full":"reject"}`)
	few.Post("/api/v1/filter?filter_typeid=small", over[:66*9500], "Content-Type", apitest.TextType)
	shoot(few.HTTP.URL, "few", map[string]string{"list": "/", "filter": "/ui/filters/news_pages", "over": "/ui/filters/shop:products", "drop": "/ui/filters/news_pages/drop", "create": "/ui/create", "unknown": "/ui/filters/other", "login": "/ui/login"})
	store.away.of <- fmt.Errorf("redis 192.0.2.7:6379: i/o timeout: %w", engine.ErrUnavailable)
	archive.connected = false
	few.API.Status().Forget()
	shoot(few.HTTP.URL, "away", list)

	locked, _ := newPageRig(t, nil, about, apitest.WithTokens)
	in := browser.Tab(pagetest.Look{Width: 390})
	in.Open(locked.HTTP.URL)
	in.Shoot("locked-out-390-light")
	in.Eval(`document.querySelector("#token").value = "secret-read"`, nil)
	in.Loading(func() { in.Eval(`document.querySelector("main form").requestSubmit()`, nil) })
	in.Shoot("locked-in-390-light")
	in.Accessible("logged in", axe)

	many, _ := newPageRig(t, []engine.Quarantined{{ID: 9, Name: "broken", Cause: errors.New("bits.bf: checksum of stripe 7 does not match")}}, about)
	lively(t, many, 500)
	shoot(many.HTTP.URL, "many", map[string]string{"list": "/?sort=rate", "page2": "/?page=1"})
}

// TestSystemPageInABrowser: a person logs in, reads, acts and logs out, with JavaScript and without; with it the page stays
// fresh, and keeps the focus of the keyboard. A page of another site can do nothing, whatever it sends.
func TestSystemPageInABrowser(t *testing.T) {
	browser := pagetest.Start(t)
	for _, noScript := range []bool{false, true} {
		r := apitest.New(t, apitest.WithTokens)
		tab := browser.Tab(pagetest.Look{Width: 1000, NoScript: noScript})
		submit := func(form string) { tab.Loading(func() { tab.Eval(form+".requestSubmit()", nil) }) }
		see := func(what string) (found bool) {
			tab.Eval(fmt.Sprintf("document.body.innerText.includes(%q)", what), &found)
			return found
		}
		tab.Open(r.HTTP.URL + "/")
		if see("New items") || !see("Log in") {
			t.Error("a stranger sees more than the form")
		}
		tab.Eval(`document.querySelector("#token").value = "secret-admin"`, nil)
		submit(`document.querySelector("main form")`)
		if !see("Logged in as admin") || !see("New items") {
			t.Fatal("not logged in")
		}
		var cookies string
		if tab.Eval(`document.cookie + JSON.stringify(localStorage)`, &cookies); cookies != "{}" {
			t.Errorf("a script can read %q", cookies)
		}
		r.Do("PUT", "/api/v1/filters/later", `{"capacity":1000}`, "Authorization", "Bearer secret-admin", "Content-Type", apitest.JSONType)
		if noScript {
			r.API.Status().Forget()
			tab.Loading(func() { tab.Eval(`document.querySelector("#updated a").click()`, nil) })
			if !see("later") {
				t.Error("loaded again, it is not fresh")
			}
		} else {
			var focus string
			tab.Eval(`document.querySelector('[href="/ui/filters/uri"]').focus()`, nil)
			tab.Eval(`new Promise(done => new MutationObserver((_, o) => { if (document.body.innerText.includes("later")) { o.disconnect(); setTimeout(done) } }).observe(document.body, {childList: true, subtree: true}))`, nil)
			if tab.Eval(`document.activeElement.getAttribute("href")`, &focus); focus != "/ui/filters/uri" {
				t.Errorf("the focus went to %q", focus)
			}
		}
		tab.Open(r.HTTP.URL + "/ui/filters/later/drop")
		submit(`document.querySelector("main form")`)
		if !see("The filter is dropped.") {
			t.Error("not dropped")
		}

		// The page of another site, on this machine, so that the browser takes it for the same site and sends the cookie.
		evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprintf(w, `<title>evil</title><form method="post" action="%s%s"><input name="token" value="secret-read"></form>`, r.HTTP.URL, req.URL.Path)
		}))
		t.Cleanup(evil.Close)
		for _, path := range []string{"/ui/filters/ip/drop", "/ui/filters/ip/clear", "/ui/create", "/ui/login", "/ui/logout"} {
			tab.Open(evil.URL + path)
			submit("document.forms[0]")
			if !see("web page of another site") {
				t.Errorf("%s is not refused", path)
			}
		}
		if _, err := r.Engine.Lookup("ip"); err != nil {
			t.Error(err)
		}
		tab.Open(r.HTTP.URL + "/")
		if !see("Logged in as admin") {
			t.Error("another site has ended the session")
		}
		submit(`document.querySelector("header form")`)
		tab.Open(r.HTTP.URL + "/")
		if see("New items") || !see("Log in") {
			t.Error("not logged out")
		}
	}

	// When the session has ended, or the daemon is away, the page says that its figures are old, and which it is.
	var takenBack atomic.Bool
	r := apitest.New(t, apitest.WithTokens, func(o *api.Options) {
		known := o.Authenticate
		o.Authenticate = func(secret string) (string, []string, bool) {
			name, scopes, ok := known(secret)
			return name, scopes, ok && !takenBack.Load()
		}
	})
	tab := browser.Tab(pagetest.Look{Width: 1000})
	sees := func(tab *pagetest.Tab, want string) {
		t.Helper()
		var says string
		tab.Eval(`new Promise(done => {
			const notes = document.querySelectorAll("main > .note[id]"), shown = () => [...notes].filter(n => !n.hidden).map(n => n.innerText).join();
			const look = () => shown() && done(shown());
			for (const n of notes) new MutationObserver(look).observe(n, {attributes: true});
			look();
		})`, &says)
		if says != want {
			t.Errorf("the page says %q, want %q", says, want)
		}
	}
	says := func(want string) { t.Helper(); sees(tab, want) }
	tab.Open(r.HTTP.URL + "/")
	tab.Eval(`document.querySelector("#token").value = "secret-read"`, nil)
	tab.Loading(func() { tab.Eval(`document.querySelector("main form").requestSubmit()`, nil) })
	takenBack.Store(true)
	says("The session has ended: the figures below are old. Log in")
	tab.Loading(func() { tab.Eval(`document.querySelector("#ended a").click()`, nil) })
	takenBack.Store(false)
	tab.Eval(`document.querySelector("#token").value = "secret-read"`, nil)
	tab.Loading(func() { tab.Eval(`document.querySelector("main form").requestSubmit()`, nil) })
	// A token that is sent by what stands in between may lose its scope.
	upstream, err := url.Parse(r.HTTP.URL)
	if err != nil {
		t.Fatal(err)
	}
	var token atomic.Value
	token.Store("secret-read")
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(upstream)
		p.Out.Header.Set("Authorization", "Bearer "+token.Load().(string))
	}})
	t.Cleanup(proxy.Close)
	behind := browser.Tab(pagetest.Look{Width: 1000})
	behind.Open(proxy.URL + "/")
	token.Store("secret-forget")
	sees(behind, "The figures below are old, as the page is refused: The token lacks a scope. token forget lacks the scope read; log in with one that has it, at /ui/login")
	r.HTTP.Close()
	says("No answer: the figures below are old.")
}
