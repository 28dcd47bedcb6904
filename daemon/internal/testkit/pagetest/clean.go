package pagetest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// Hostile is a text that would do harm on a page that did not escape it: as an element, in an attribute, in a script, in a
// header, or as an address.
const Hostile = `'"></title></textarea><script>alert(1)</script><img src=x onerror=alert(2)>{{.}}${1}javascript:alert(3)` + "\r\nSet-Cookie: a=b\u2028"

// Clean fails if an answer has anything that a page of ours never has, and that the text of somebody else might bring in:
// scripts, styles, handlers or addresses of others, or headers of theirs.
func Clean(t testing.TB, resp *http.Response, text string) {
	t.Helper()
	h := resp.Header
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
		"X-Content-Type-Options":  "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		if got := h.Values(name); len(got) != 1 || got[0] != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for _, cookie := range h.Values("Set-Cookie") {
		if !strings.Contains(cookie, "_session") {
			t.Errorf("a cookie of somebody else: %q", cookie)
		}
	}
	if at := h.Get("Location"); at != "" && (!strings.HasPrefix(at, "/") || strings.HasPrefix(at, "//") || strings.ContainsAny(at, "\r\n\\<")) {
		t.Errorf("it leads to %q", at)
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	scripts := 0
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"style", "iframe", "object", "embed", "base", "img", "video", "audio"}, n.Data) || n.Data == "meta" && attr(n, "http-equiv") != "" {
			t.Errorf("it has an element %s", n.Data)
		}
		if n.Data == "script" {
			scripts++
			if n.FirstChild != nil || !strings.HasPrefix(attr(n, "src"), "/ui/") {
				t.Errorf("script %q", attr(n, "src"))
			}
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc" || a.Key == "formaction":
				t.Errorf("%s has an attribute %s", n.Data, a.Key)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") && a.Val != "data:," && a.Val != "#main" && (!strings.HasPrefix(a.Val, "/") || strings.HasPrefix(a.Val, "//")):
				t.Errorf("%s leads to %q", n.Data, a.Val)
			}
		}
	}
	if scripts > 1 {
		t.Errorf("%d scripts", scripts)
	}
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}
