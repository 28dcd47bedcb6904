package pages

import (
	"fmt"
	"math/rand/v2"
	"path"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

func parse(t *testing.T, s string) *uri.URI {
	t.Helper()
	u, err := uri.Parse(s)
	if err != nil {
		t.Fatalf("%s: %v", s, err)
	}
	return u
}

// TestName: names are readable; the mark is omitted here.
func TestName(t *testing.T) {
	t.Parallel()
	const html = "text/html; charset=utf-8"
	for _, c := range []struct {
		uri, contentType, want string
		digits                 int
	}{
		{"http://example.com/", html, "example.com/index-*.html", 8},
		{"https://example.com/news/today", html, "example.com/news_today-*.html", 8},
		{"http://example.com/news/today.html", html, "example.com/news_today-*.html", 8},
		{"http://example.com/news/", html, "example.com/news_-*.html", 8},
		{"http://example.com/a.php", html, "example.com/a.php-*.html", 8},
		{"http://example.com/logo.png", "image/png", "example.com/logo-*.png", 8},
		{"http://example.com/data", "application/x-what-is-this", "example.com/data-*.bin", 8},
		{"http://example.com/data", "", "example.com/data-*.bin", 8},
		{"http://example.com:8080/x", html, "example.com_8080/x-*.html", 8},
		{"http://[2001:db8::1]:81/x", html, "ipv6-2001-db8--1_81/x-*.html", 16},
		{"http://127.0.0.1/x", html, "127.0.0.1/x-*.html", 8},
		{"http://example.com/x?p=1&q=../..", html, "example.com/x-p-1-q-.._..-*.html", 16},
		{"http://example.com/Big/CamelCase", html, "example.com/big_camelcase-*.html", 16},
		{"http://example.com/index", html, "example.com/index-*.html", 16},
		{"http://example.com/a_b", html, "example.com/a_b-*.html", 16},
		{"http://example.com/中文/été", html, "example.com/中文_été-*.html", 16},
		{"http://example.com/%D6%D0", html, "example.com/d6-d0-*.html", 16},
		{"http://example.com/%2e%2e%2f%2e%2e%2fetc/passwd", html, "example.com/2e-2e-2f-2e-2e-2fetc_passwd-*.html", 16},
		{"http://example.com/.htaccess", html, "example.com/htaccess-*.html", 16},
		{"http://example.com/con", html, "example.com/page-con-*.html", 16},
		{"http://example.com/aux.txt/x", html, "example.com/page-aux.txt_x-*.html", 16},
		{"http://nul/x", html, "host-nul/x-*.html", 16},
		{"http://aux.example./x", html, "host-aux.example/x-*.html", 16},
		{"http://a_b.example/x", html, "a-b.example/x-*.html", 16},
		{"http://xn--mnchen-3ya.example/x", html, "xn--mnchen-3ya.example/x-*.html", 8},
		{`http://example.com/a\b:c*d"e<f>|g%00`, html, "example.com/a_b-c-d-22e-3cf-3e-g-00-*.html", 16},
		{"http://example.com/" + strings.Repeat("x", 5000), html, "example.com/" + strings.Repeat("x", 80) + "-*.html", 16},
		{"http://example.com/" + strings.Repeat("中", 100), html, "example.com/" + strings.Repeat("中", 26) + "-*.html", 16},
	} {
		got := Name(parse(t, c.uri), c.contentType)
		base := strings.TrimSuffix(got, path.Ext(got))
		cut := strings.LastIndex(base, "-")
		if plain := base[:cut] + "-*" + path.Ext(got); plain != c.want || len(base)-cut-1 != c.digits {
			t.Errorf("%s: got %s, want %s with %d digits", c.uri, got, c.want, c.digits)
		}
	}
}

// checkSafe: no name leaves its folder, is reserved, or is too long.
func checkSafe(t *testing.T, name string) {
	t.Helper()
	parts := strings.Split(name, "/")
	if len(parts) != 2 || path.Clean(name) != name {
		t.Errorf("%q: want a folder and a file", name)
	}
	for _, part := range parts {
		switch {
		case part == "" || len(part) > 120 || strings.Trim(part, ". ") != part || strings.ToLower(part) != part || reserved(part):
			t.Errorf("%q is no name for a file everywhere", part)
		case strings.ContainsAny(part, "\\:*?\"<>|~\x00\x7f") || strings.HasSuffix(part, suffix):
			t.Errorf("%q has what must not be in it", part)
		}
	}
	if (&Folder{dir: "x"}).Path(name) == "" {
		t.Errorf("%q has no path", name)
	}
	if _, err := (&Folder{dir: "x"}).path(name); err != nil {
		t.Error(err)
	}
}

// TestNamesDiffer: many similar URIs have different names, also on file systems that ignore
// letter case.
func TestNamesDiffer(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same every time
	pieces := []string{"a", "A", "/", ".", "_", "-", "index", ".html", "%20", "?", "é", "É", "con", "%2e", "x.php", "1"}
	hosts := []string{"h", "H.example", "h.example.", "h_8080", "h:8080", "h:443", "h:80", "[::1]", "aux", "host-aux", "h-8080"}
	names := map[string]string{}
	for range 20_000 {
		s := []string{"http://", "https://"}[r.IntN(2)] + hosts[r.IntN(len(hosts))] + "/"
		for range r.IntN(5) {
			s += pieces[r.IntN(len(pieces))]
		}
		u := parse(t, s)
		name := Name(u, "text/html")
		if other, ok := names[strings.ToLower(name)]; ok && other != u.String() {
			t.Fatalf("%s and %s are both %s", other, u, name)
		}
		names[strings.ToLower(name)] = u.String()
		checkSafe(t, name)
	}
	if len(names) < 8_000 {
		t.Errorf("%d names were tried, want more", len(names))
	}
}

// TestPlainNamesDiffer: for plain paths the name shows all but the scheme, so that no luck is needed.
func TestPlainNamesDiffer(t *testing.T) {
	t.Parallel()
	mark := func(s string) (rest string, bits byte) {
		name := Name(parse(t, s), "text/html")
		cut := strings.LastIndex(name, "-")
		var first byte
		if _, err := fmt.Sscanf(name[cut+1:cut+3], "%02x", &first); err != nil || len(name) != cut+1+8+len(".html") {
			t.Fatalf("%s: got %s (%v), want 8 digits", s, name, err)
		}
		return name[:cut], first & 3
	}
	seen := map[string]string{}
	for _, s := range []string{"http://h/a", "https://h/a", "http://h/a.html", "https://h/a.html", "http://h/a/", "http://h/a/.html", "http://h/", "https://h/"} {
		rest, bits := mark(s)
		key := fmt.Sprint(rest, bits)
		if seen[key] != "" {
			t.Errorf("%s and %s differ by their hashes only", s, seen[key])
		}
		seen[key] = s
	}
}

func FuzzName(f *testing.F) {
	f.Add("http://h.example/../a?b", "text/html")
	f.Add("https://[::1]:8/%zz%e4%b8", "a/b;c")
	f.Fuzz(func(t *testing.T, s, contentType string) {
		if u, err := uri.Parse(s); err == nil {
			checkSafe(t, Name(u, contentType))
		}
	})
}
