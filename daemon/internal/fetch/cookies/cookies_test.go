package cookies

import (
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func at(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// sent is what a jar sends to a URL.
func sent(t *testing.T, j http.CookieJar, to string) string {
	t.Helper()
	var all []string
	for _, c := range j.Cookies(at(t, to)) {
		all = append(all, c.Name+"="+c.Value)
	}
	return strings.Join(all, "; ")
}

func TestCookiesAreOfTheirJobAndSite(t *testing.T) {
	t.Parallel()
	s := New(0)
	one, two := s.Jar(1), s.Jar(2)
	one.SetCookies(at(t, "http://www.example.co.uk/a"), []*http.Cookie{{Name: "own", Value: "1"}, {Name: "all", Value: "2", Domain: "example.co.uk", Path: "/"}})
	one.SetCookies(at(t, "http://www.example.co.uk/a"), []*http.Cookie{{Name: "registry", Value: "x", Domain: "co.uk", Path: "/"}, {Name: "foreign", Value: "x", Domain: "other.co.uk", Path: "/"}})
	one.SetCookies(at(t, "http://127.0.0.1:8000/"), []*http.Cookie{{Name: "ip", Value: "3"}})
	one.SetCookies(at(t, "https://www.example.co.uk/"), []*http.Cookie{{Name: "safe", Value: "4", Secure: true}})
	for to, want := range map[string]string{
		"http://www.example.co.uk/a":      "own=1; all=2",
		"https://WWW.example.co.uk/b":     "own=1; all=2; safe=4",
		"http://shop.example.co.uk/":      "all=2",
		"http://other.co.uk/":             "",
		"http://127.0.0.1:9000/whichever": "ip=3",
		"http://127.0.0.2/":               "",
	} {
		if got := sent(t, one, to); got != want {
			t.Errorf("%s: %q, want %q", to, got, want)
		}
	}
	if got := sent(t, two, "http://www.example.co.uk/a"); got != "" {
		t.Errorf("another job sends %q", got)
	}
	if got := sent(t, s.Jar(1), "http://shop.example.co.uk/"); got != "all=2" {
		t.Errorf("another jar of the job sends %q", got)
	}
}

// A server cannot fill the memory, and one that tries loses its earlier cookies.
func TestCookiesAreBounded(t *testing.T) {
	t.Parallel()
	s := New(3)
	j := s.Jar(1)
	u := at(t, "http://a.example/")
	for i := range 1000 {
		j.SetCookies(u, []*http.Cookie{{Name: fmt.Sprintf("n%d", i), Value: "v"}})
		if n := len(j.Cookies(u)); n > maxCookies {
			t.Fatalf("%d cookies", n)
		}
	}
	if got := sent(t, j, "http://a.example/"); !strings.HasSuffix(got, "n999=v") || strings.Contains(got, "n0=") {
		t.Errorf("sends %q", got)
	}
	for i := range 100 {
		j.SetCookies(u, []*http.Cookie{{Name: "same", Value: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 4000))}})
		if n := len(sent(t, j, "http://a.example/")); n > maxBytes+maxCookies*3 {
			t.Fatalf("%d bytes", n)
		}
	}
	j.SetCookies(u, []*http.Cookie{{Name: "same", Value: "short"}, {Name: "long", Value: strings.Repeat("x", maxCookie)}})
	if got := sent(t, j, "http://a.example/"); !strings.Contains(got, "same=short") || strings.Contains(got, "long=") {
		t.Errorf("sends %q", got)
	}
	for _, host := range []string{"b", "c", "a", "d"} {
		j.SetCookies(at(t, "http://"+host+".example/"), []*http.Cookie{{Name: "host", Value: host}})
	}
	for host, want := range map[string]bool{"a": true, "b": false, "c": true, "d": true} {
		if got := sent(t, j, "http://"+host+".example/"); strings.Contains(got, "host="+host) != want {
			t.Errorf("%s: %q", host, got)
		}
	}
	if len(s.sites) != 3 || s.recent.Len() != 3 {
		t.Errorf("%d sites, %d in order", len(s.sites), s.recent.Len())
	}
}

// A site may set a cookie anew with each answer, as many do with that of a session: the others stay.
func TestCookiesThatAreSetAnew(t *testing.T) {
	t.Parallel()
	j := New(0).Jar(1)
	u := at(t, "https://www.example.com/shop/list")
	j.SetCookies(u, []*http.Cookie{{Name: "login", Value: "secret"}})
	for i := range 1000 {
		j.SetCookies(u, []*http.Cookie{{Name: "last", Value: fmt.Sprintf("%d-%s", i, strings.Repeat("x", 200)), Path: "/"}})
	}
	if got := sent(t, j, u.String()); !strings.Contains(got, "login=secret") || !strings.Contains(got, "last=999-") {
		t.Errorf("sends %.50q", got)
	}
	for i := range 1000 { // one of the domain counts once, whichever host sets it
		j.SetCookies(at(t, fmt.Sprintf("https://h%d.example.com/", i)), []*http.Cookie{{Name: "seen", Value: "x", Domain: ".Example.com", Path: "/"}})
	}
	if got := sent(t, j, u.String()); !strings.Contains(got, "login=secret") || !strings.Contains(got, "seen=x") {
		t.Errorf("after cookies of the domain, sends %.50q", got)
	}
	for i := range 1000 { // without a path, each is a cookie of its own folder
		j.SetCookies(at(t, fmt.Sprintf("https://www.example.com/%d/page", i)), []*http.Cookie{{Name: "last", Value: "x"}})
	}
	if got := sent(t, j, "https://www.example.com/0/page"); strings.Contains(got, "last=x") {
		t.Errorf("more than %d cookies are kept", maxCookies)
	}
}

func TestCookiesOfManyAtOnce(t *testing.T) {
	t.Parallel()
	s := New(5)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			j := s.Jar(int64(i % 2))
			for k := range 500 {
				u := at(t, fmt.Sprintf("http://h%d.example/", k%7))
				j.SetCookies(u, []*http.Cookie{{Name: fmt.Sprint(k % 50), Value: "v"}})
				j.Cookies(u)
			}
		})
	}
	all.Wait()
	if s.recent.Len() != 5 {
		t.Errorf("%d sites", s.recent.Len())
	}
}

// A cookie whose Max-Age is longer than a time.Duration is kept, and saved.
func TestLongMaxAge(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cookies")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	const site = "http://www.example.com/"
	f.SetCookies(at(t, site), []*http.Cookie{{Name: "session", Value: "1", Path: "/", MaxAge: 9_999_999_999}})
	if got := sent(t, f, site); got != "session=1" {
		t.Errorf("sent %q", got)
	}
	if err := f.Save(); err != nil {
		t.Fatal(err)
	}
	if f, err = Open(path); err != nil {
		t.Fatal(err)
	}
	if got := sent(t, f, site); got != "session=1" {
		t.Errorf("after a restart it sends %q", got)
	}
}
