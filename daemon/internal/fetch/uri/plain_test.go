package uri

import (
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// checkPlain: the fast path gives the same result as the parser.
func checkPlain(t *testing.T, base, reference string) bool {
	t.Helper()
	u, err := Parse(base)
	if err != nil {
		return false
	}
	short := u.resolvePlain(reference)
	if short == nil {
		return false
	}
	long, err := read(reference, u.href)
	if err != nil || !reflect.DeepEqual(short, long) {
		t.Errorf("%q of %q: got %+v, the parser says %+v, %v", reference, base, short, long, err)
	}
	return true
}

func TestResolvePlain(t *testing.T) {
	t.Parallel()
	for reference, want := range map[string]bool{
		"/a": true, "/a/b.html?x=1&y=%20/?": true, "/a#b\x00": true, "/a??": true, "/a;b=c:d@e,f!$&()*+~-_": true, "/a//b": true, "/c:/x": true, "/a?b#c?d": true,
		"/a?": false, "/a?#b": false, "/": false, "": false, "a": false, "//h/x": false, "/a/../b": false, "/.": false, "/%2e%2e/a": false, "/%20%": true, "/a b": false, "/ä": false, `/\h`: false, "/a?'": false, "/a\tb": false, "?a": false, "/a|b": false,
	} {
		for _, base := range []string{"http://h.example/d/p?q#f", "https://user:secret@[::1]:8443/", "http://127.0.0.1:8080/x"} {
			if got := checkPlain(t, base, reference); got != want {
				t.Errorf("%q of %q: plain is %v, want %v", reference, base, got, want)
			}
		}
	}
}

func FuzzResolvePlain(f *testing.F) {
	f.Add("http://h/", "/a/b?c%#d")
	f.Add("https://u@[::1]:1/x", "/:@/..a")
	f.Fuzz(func(t *testing.T, base, reference string) { checkPlain(t, base, reference) })
}

// checkParsePlain: the fast path gives the same result as the parser.
func checkParsePlain(t *testing.T, text string) bool {
	t.Helper()
	short := parsePlain(text)
	if short == nil {
		return false
	}
	long, err := read(text, "")
	if err != nil || !reflect.DeepEqual(short, long) {
		t.Errorf("%q: got %+v, the parser says %+v, %v", text, short, long, err)
	}
	checkPlainURL(t, short)
	return true
}

// checkPlainURL: the fast path gives the same net/http URL as net/url's parser.
func checkPlainURL(t *testing.T, u *URI) bool {
	t.Helper()
	short := u.plainURL()
	if short == nil {
		return false
	}
	long, err := url.Parse(u.href)
	if err != nil || !reflect.DeepEqual(short, long) || short.RequestURI() != u.Path {
		t.Errorf("%s: got %#v, net/url says %#v, %v", u, short, long, err)
	}
	return true
}

func TestParsePlain(t *testing.T) {
	t.Parallel()
	label := strings.Repeat("a", 63)
	for text, want := range map[string]bool{
		"http://h.example/": true, "https://h/a/b?c=d%20#e f": true, "http://h:8080/": true, "https://h:80/x": true, "http://127.0.0.1:8001/a;b": true, "http://1.2.3.4.example/": true,
		"http://a-b.c-d/": true, "http://" + label + "/": true, "http://h/%zz%": true, "http://h/%C3%BC?%2e": true, "http://a.b1/": true, "http://a.x0/": true,
		"http://h": false, "http://h?a": false, "http://h#a": false, "HTTP://h/": false, "http://H/": false, "http:/h/": false, " http://h/": false, "http://h:/": false, "http://h:80/": false,
		"https://h:443/": false, "http://h:080/": false, "http://h:65536/": false, "http://h:+1/": false, "http://u@h/": false, "http://[::1]/": false, "http://127.1/": false,
		"http://1/": false, "http://0x7f.0.0.1/": false, "http://a.0x1/": false, "http://01.2.3.4/": false, "http://1.2.3.4.5/": false, "http://256.1.1.1/": false,
		"http://xn--bcher-kva.example/": false, "http://h./": false, "http://.h/": false, "http://a..b/": false, "http://-a/": false, "http://a-/": false, "http://a-.b/": false, "http://a_b/": false,
		"http://" + label + "a/": false, "http://h/../a": false, "http://h/a/%2e%2E/b": false, "http://h/?": false, "http://h/a b": false, "http://h/\xff": false, "http://h\\a/": false,
		"ftp://h/": false, "http:///": false, "http://:1/": false, "": false, "http://h/a?'": false, "http://h/\ta": false,
	} {
		if got := checkParsePlain(t, text); got != want {
			t.Errorf("%q: plain is %v, want %v", text, got, want)
		}
	}
}

func TestPlainURL(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{"/": true, "/a/b-c_d.e~f": true, "/a?b=[c]&d=%zz": true, "/a?b?c": true, "/a;b": false, "/a%20b": false, "//a": false, "/a:b": false, "/a+b": false} {
		u, err := Parse("http://h.example:8080" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := checkPlainURL(t, u); got != want {
			t.Errorf("%s: plain is %v, want %v", path, got, want)
		}
	}
}

func FuzzParsePlain(f *testing.F) {
	for _, s := range []string{"http://h/a?b#c", "https://127.0.0.1:8443/x", "http://a-b.1c:1/%2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkParsePlain(t, text)
		checkParsePlain(t, "http://"+text+"/")
	})
}
