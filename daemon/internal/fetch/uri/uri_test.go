package uri

import (
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"http://example.com":                    "http://example.com/",
		"HTTP://EXAMPLE.com:80/a/../b?c#d":      "http://example.com/b?c",
		"https://example.com:443/":              "https://example.com/",
		"https://example.com:80/":               "https://example.com:80/",
		" http://example.com/a b\n":             "http://example.com/a%20b",
		"http:\\\\example.com\\a\\b":            "http://example.com/a/b",
		"http:/example.com/":                    "http://example.com/",
		"http://exa\tmple.com/\r\n":             "http://example.com/",
		"http://bücher.example/ü?ü":             "http://xn--bcher-kva.example/%C3%BC?%C3%BC",
		"http://example.com/%zz":                "http://example.com/%zz",
		"http://2130706433/":                    "http://127.0.0.1/",
		"http://0x7f.1/":                        "http://127.0.0.1/",
		"http://0177.0.0.01/":                   "http://127.0.0.1/",
		"http://127.1/":                         "http://127.0.0.1/",
		"http://１２７．０．０．１/":                     "http://127.0.0.1/",
		"http://[0:0:0:0:0:0:0:1]:8080/":        "http://[::1]:8080/",
		"http://[::ffff:127.0.0.1]/":            "http://[::ffff:7f00:1]/",
		"http://name:pass%40@example.com/":      "http://example.com/",
		"http://example.com/\xff":               "http://example.com/%FF",
		"http://example.com//a//b":              "http://example.com//a//b",
		"http://example.com/?q=a|b&c='d'":       "http://example.com/?q=a|b&c=%27d%27",
		"http://example.com:65535/":             "http://example.com:65535/",
		"http://a_b.example.com/":               "http://a_b.example.com/",
		"http://example.com/a%0d%0aX-Header: 1": "http://example.com/a%0d%0aX-Header:%201",
	} {
		u, err := Parse(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if u.String() != want {
			t.Errorf("%q: got %s, want %s", text, u, want)
		}
		if got := u.URL(false); got.Host != u.Authority() || got.Scheme != u.Scheme {
			t.Errorf("%q for net/http: %#v", text, got)
		}
	}
	for _, text := range []string{
		"", "example.com", "/a", "//example.com/", "http://", "http:///", "file:///etc/passwd", "gopher://example.com/", "ftp://example.com/",
		"javascript:alert(1)", "data:,x", "http://example.com:65536/", "http://example.com:x/", "http://[::1/", "http://256.1.1.1/",
		"http://a b/", "http://a%00b/", "http://exa<mple/", "http://" + strings.Repeat("a", 300) + "/", "http://example.com/" + strings.Repeat("a", MaxBytes),
	} {
		if u, err := Parse(text); err == nil {
			t.Errorf("%.60q: got %s, want an error", text, u)
		}
	}
}

func TestParts(t *testing.T) {
	u, err := Parse("https://me:secret%40@[::1]:8443/a?b")
	if err != nil {
		t.Fatal(err)
	}
	if password, _ := u.User.Password(); u.User.Username() != "me" || password != "secret@" {
		t.Errorf("user: got %v", u.User)
	}
	if u.Host != "::1" || !u.Addr.IsLoopback() || u.Port != 8443 || u.Path != "/a?b" || u.Origin() != "https://[::1]:8443" {
		t.Errorf("got %+v with origin %s", u, u.Origin())
	}
}

func TestResolve(t *testing.T) {
	base, err := Parse("http://user:x@example.com/a/b?c")
	if err != nil {
		t.Fatal(err)
	}
	for reference, want := range map[string]string{
		"": "http://example.com/a/b?c", "d": "http://example.com/a/d", "../../d": "http://example.com/d", "?x": "http://example.com/a/b?x",
		"//other.example/": "http://other.example/", "\\\\other.example\\x": "http://other.example/x", "http:c.html": "http://example.com/a/c.html",
		"/d e#f": "http://example.com/d%20e", "https://x/": "https://x/",
	} {
		if u, err := base.Resolve(reference); err != nil || u.String() != want || u.User != nil {
			t.Errorf("%q: got %v and %v, want %s", reference, u, err, want)
		}
	}
	for _, reference := range []string{"file:///etc/passwd", "mailto:a@b", "http://", "gopher://127.0.0.1:6379/_x"} {
		if u, err := base.Resolve(reference); err == nil {
			t.Errorf("%q: got %s, want an error", reference, u)
		}
	}
}

func TestURLKeepsPath(t *testing.T) {
	for path, want := range map[string]string{"/%zz": "/%zz", "/a%2fb?%": "/a%2fb?%", "//%zz": "http://example.com//%zz", "/a;b?c=[d]": "/a;b?c=[d]"} {
		u, err := Parse("http://example.com" + path)
		if err != nil {
			t.Fatal(err)
		}
		if got := u.URL(false).RequestURI(); got != want {
			t.Errorf("%s: asked for %s, want %s", path, got, want)
		}
	}
	u, _ := Parse("http://example.com/%zz")
	if got := u.URL(true).RequestURI(); got != "http://example.com/%zz" {
		t.Errorf("to a proxy: %s", got)
	}
}

// A parsed URI parses to itself again, and never smuggles anything into a request.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"http://a/", "https://0x7f.1:8/\\..\\?#", "http://ü@[::1]/%zz", "http://a/\r\nHost: b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(u.String())
		if err != nil || again.String() != u.String() || again.Addr != u.Addr || again.Port != u.Port {
			t.Errorf("%q is %q, which is %v again (%v)", text, u, again, err)
		}
		if sent := u.URL(false).RequestURI() + u.URL(true).RequestURI() + u.Authority(); strings.ContainsAny(sent, " \r\n\t\x00") {
			t.Errorf("%q is sent as %q", text, sent)
		}
	})
}

// The error is one clause, without the URI, which callers add.
func TestReasons(t *testing.T) {
	for text, want := range map[string]string{
		"example.com/a":     "no URI: it does not begin with a scheme, such as https://",
		"http://[::1/":      "no URI: an IPv6 address is missing the closing U+005D (])",
		"http://a:99999/":   "no URI: the input's port is outside the range [0-65535]",
		"ftp://example.com": `the scheme is "ftp", want http or https`,
	} {
		if _, err := Parse(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
