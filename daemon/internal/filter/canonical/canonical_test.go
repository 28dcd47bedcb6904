package canonical

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

var tracking = NewNames(strings.Split(configs.Tracking, ","))

func TestForms(t *testing.T) {
	for _, c := range []struct{ uri, safe, crawl string }{
		// RFC 3986, section 6.2.2, and default ports
		{"eXAMPLE://a/./b/../b/%63/%7bfoo%7d", "example://a/b/c/%7Bfoo%7D", ""},
		{"HTTP://www.EXAMPLE.com", "http://www.example.com/", ""},
		{"http://example.com:80/", "http://example.com/", ""},
		{"http://example.com:/", "http://example.com/", ""},
		{"https://example.com:80/", "https://example.com:80/", ""},
		{"https://example.com:443/a?b#c", "https://example.com/a?b#c", "https://example.com/a?b="},
		{"http://User:PW@Example.com/", "http://User:PW@example.com/", ""},
		{"http://[2001:DB8::1]:80/", "http://[2001:db8::1]/", ""},
		{"http://example.com/a/../../b/.", "http://example.com/b/", ""},
		{"http://example.com/a/b/..", "http://example.com/a/", ""},
		{"http://example.com/%2e%2e/%41", "http://example.com/A", ""},
		{"http://example.com/a%2fb", "http://example.com/a%2Fb", ""},
		{"http://example.com/...", "http://example.com/...", ""},
		{"http://example.com/a//b/", "http://example.com/a//b/", ""},
		{"http://ex%41mple.com/", "http://example.com/", ""},
		{"file:///a/../B", "file:///B", ""},
		{"http://example.com?q", "http://example.com/?q", "http://example.com/?q="},
		// not ASCII, or must be escaped
		{"http://example.com/é b", "http://example.com/%C3%A9%20b", ""},
		{"http://example.com/\xe9", "http://example.com/%E9", ""},
		{"http://BÜCHER.example/", "http://xn--bcher-kva.example/", ""},
		{"http://faß.example/", "http://xn--fa-hia.example/", ""},
		{"http://b%C3%BCcher.example/", "http://xn--bcher-kva.example/", ""},
		{"http://my_host.example/", "http://my_host.example/", ""},
		{"http://example.com/%", "http://example.com/%25", ""},
		{"http://example.com/%%341", "http://example.com/%2541", ""},
		{"http://example.com/%zz", "http://example.com/%25zz", ""},
		// queries
		{"http://example.com/?", "http://example.com/?", "http://example.com/"},
		{"http://example.com/#", "http://example.com/#", "http://example.com/"},
		{"http://example.com/?b=2&a=1&a=0", "http://example.com/?b=2&a=1&a=0", "http://example.com/?a=0&a=1&b=2"},
		{"http://example.com/?b=2;a=1", "http://example.com/?b=2;a=1", "http://example.com/?b=2%3Ba%3D1"},
		{"http://example.com/?&&a=%7e+%20&", "http://example.com/?&&a=~+%20&", "http://example.com/?a=~++"},
		{"http://example.com/?q=%2b", "http://example.com/?q=%2B", "http://example.com/?q=%2B"},
		{"http://example.com/?u=http://a/b?c", "http://example.com/?u=http://a/b?c", "http://example.com/?u=http%3A%2F%2Fa%2Fb%3Fc"},
		{"http://example.com/?=", "http://example.com/?=", "http://example.com/?="},
		{"http://example.com/?utm_source=x&id=7&GCLID=1", "http://example.com/?utm_source=x&id=7&GCLID=1", "http://example.com/?id=7"},
		{"http://example.com/?utm%5Fsource=x", "http://example.com/?utm_source=x", "http://example.com/"},
		{"http://example.com/a;jsessionid=0F/b;v=1?c", "http://example.com/a;jsessionid=0F/b;v=1?c", "http://example.com/a/b;v=1?c="},
		{"http://example.com/..;jsessionid=1/b", "http://example.com/..;jsessionid=1/b", "http://example.com/b"},
		{"http://example.com/%3Ab%5b", "http://example.com/%3Ab%5B", "http://example.com/:b%5B"},
		{" http://example.com/a\n", " http://example.com/a\n", "http://example.com/a"},
		{"http://example.com/a%3bb", "http://example.com/a%3Bb", ""},
		{"http://example.com/a;b", "", ""},
		{"http://example.com/a%2Cb%3Dc", "http://example.com/a%2Cb%3Dc", "http://example.com/a,b=c"},
		// hosts and ports as browsers read them
		{"http://example.com:080/", "http://example.com/", ""},
		{"http://example.com:008080/", "http://example.com:8080/", ""},
		{"http://example.com:00/", "http://example.com:0/", ""},
		{"http://[2001:0DB8:0:0:0:0:0:1]:80/", "http://[2001:db8::1]/", ""},
		{"http://[::ffff:127.0.0.1]/", "http://[::ffff:7f00:1]/", ""},
		{"gopher://[0:0::1]:070/", "gopher://[::1]:70/", ""},
		{"http://example.com./", "http://example.com./", "http://example.com/"},
		{"http://example.com.:80/", "http://example.com./", "http://example.com/"},
		{"http://example.com../", "http://example.com../", ""},
		{"http://./", "", ""},
		{"http://127.0.0.1./", "http://127.0.0.1./", "http://127.0.0.1/"},
		{"http://2130706433/", "http://2130706433/", "http://127.0.0.1/"},
		{"http://0x7F.1/", "http://0x7f.1/", "http://127.0.0.1/"},
		{"http://0177.0.0.01/", "http://0177.0.0.01/", "http://127.0.0.1/"},
		{"http://0xffffffff/", "http://0xffffffff/", "http://255.255.255.255/"},
		{"http://127.1./", "http://127.1./", "http://127.0.0.1/"},
		{"http://１２７．０．０．１/", "http://127.0.0.1/", ""},
		{"http://0x/", "http://0x/", "http://0.0.0.0/"},
		{"http://4294967296/", "", ""}, {"http://1.2.3.4.5/", "", ""}, {"http://256.1.1.1/", "", ""}, {"http://1.2.3.08/", "", ""}, {"http://1..2/", "", ""}, {"http://a.1b/", "", ""},
		{"http://1e400.99999999999999999999999999/", "", ""},
		{"gopher://0x7f.1./", "", ""},
		{"http://@example.com/", "http://@example.com/", "http://example.com/"},
		{"http://:@example.com/", "http://:@example.com/", "http://example.com/"},
		{"http://u:@example.com/", "http://u:@example.com/", "http://u@example.com/"},
		{"http://:p@example.com/", "http://:p@example.com/", ""},
		{"http:\\\\example.com\\a\\..\\b?c\\d", "", "http://example.com/b?c%5Cd="},
		{"http://example.com\\@other.example/", "http://example.com%5C@other.example/", "http://example.com/@other.example/"},
		{"gopher://h/a\\b", "gopher://h/a%5Cb", ""},
		{"http:/A", "", "http://a/"}, {"http:A/b", "", "http://a/b"}, {"http:///A", "", "http://a/"}, {"HTTPS:/\\A", "", "https://a/"},
		{"http:", "", ""}, {"http:///", "", ""}, {"gopher:/A", "", ""}, {"gopher:///A", "", ""},
		// no URI with an authority, or a malformed one
		{"", "", ""}, {"a", "a", ""}, {"/a/../b", "", ""}, {"//a/b", "", ""}, {"mailto:A@B", "", ""},
		{"://a", "", ""}, {"1http://A", "", ""}, {"http://", "", ""}, {"http://:80", "", ""},
		{"http://A:b/", "", ""}, {"http://A b/", "", ""}, {"http://[::1", "", ""}, {"http://[::G]/", "", ""},
		{"http://%zz/", "", ""}, {"http://A\xff/", "", ""}, {"http://\u00ad/", "", ""}, {"HTTP://A<b>/", "", ""},
	} {
		if c.safe == "" {
			c.safe = c.uri
		}
		if c.crawl == "" {
			c.crawl = c.safe
		}
		for form, want := range map[Form]string{None: c.uri, Safe: c.safe, Crawl: c.crawl} {
			got := string(new(Canonicalizer).Append([]byte("x"), []byte(c.uri), Rule{form, tracking}))
			if got != "x"+want {
				t.Errorf("%v of %q is %q, want %q", form, c.uri, got[1:], want)
			}
		}
	}
}

func TestFormsHaveNames(t *testing.T) {
	for _, f := range []Form{None, Safe, Crawl} {
		if got, err := ParseForm(f.String()); err != nil || got != f {
			t.Errorf("%v is read as %v, %v", f, got, err)
		}
	}
	if _, err := ParseForm("all"); err == nil {
		t.Error("a form that does not exist is read")
	}
}

// FuzzIdempotent: a canonical URI stays as it is in either form, and Crawl of its Safe form is
// Crawl of the URI itself.
func FuzzIdempotent(f *testing.F) {
	for _, uri := range []string{
		"http://a/%2e%2e/;jsessionid=1/../b;c?d=%2b+;e&utm_x=1#f", "HTTP://U@[::1]:80?%", "http://ü.example:443/%%341",
		" \thttp://a\n/", "http://a/..;jsessionid=1", "file:///..//a", "https://%41.b:/?=&;#%",
	} {
		f.Add([]byte(uri))
	}
	safe, crawl := Rule{Form: Safe}, Rule{Crawl, tracking}
	var c Canonicalizer
	f.Fuzz(func(t *testing.T, uri []byte) {
		sent := bytes.Clone(uri)
		once := c.Append(nil, uri, safe)
		if twice := c.Append(nil, once, safe); !bytes.Equal(once, twice) {
			t.Errorf("safe: %q -> %q -> %q", uri, once, twice)
		}
		both, far := c.Append(nil, once, crawl), c.Append(nil, uri, crawl)
		if again := c.Append(nil, far, crawl); !bytes.Equal(far, again) {
			t.Errorf("crawl: %q -> %q -> %q", uri, far, again)
		}
		if !bytes.Equal(both, far) && bytes.Equal(c.clean(uri), uri) {
			t.Errorf("%q: crawl of safe is %q, of itself %q", uri, both, far)
		}
		if !bytes.Equal(uri, sent) {
			t.Errorf("%q was changed to %q", sent, uri)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for name, uri := range map[string]string{
		"plain":    "https://www.example.com/news/2026/11/22/some-article-with-a-title.html",
		"query":    "https://www.example.com/search?q=bloom+filter&page=7&sort=date&utm_source=feed",
		"escapes":  "http://EXAMPLE.com:80/%7euser/a/../b%2fc/r%c3%a9sum%c3%a9?x=%2b",
		"not ours": "some text that is no URI at all",
	} {
		for _, form := range []Form{Safe, Crawl} {
			b.Run(name+"/"+form.String(), func(b *testing.B) {
				var c Canonicalizer
				by, in, buf := Rule{form, tracking}, []byte(uri), make([]byte, 0, 256)
				b.SetBytes(int64(len(in)))
				b.ReportAllocs()
				for b.Loop() {
					buf = c.Append(buf[:0], in, by)
				}
			})
		}
	}
}
