package uri

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"http://a/":                "http://a/",
		"http://me:secret@a/b?c#d": "http://xxxxx@a/b?c#d",
		"https://secret@a/":        "https://xxxxx@a/",
		"http://me:sec@ret@a:80/":  "http://xxxxx@a:80/",
		"HTTP://:secret@[::1]/":    "HTTP://xxxxx@[::1]/",
		`http:\\me:secret@a\b`:     `http:\\xxxxx@a\b`,
		"http:me:secret@a/":        "http:xxxxx@a/",
		"https:/me:secret@a/":      "https:/xxxxx@a/",
		"http:///me:secret@a/":     "http:///xxxxx@a/",
		"//me:secret@a/":           "//xxxxx@a/",
		"socks5://me:secret@a:1":   "socks5://xxxxx@a:1",
		"status: http://me:secret@a/x: 404 (\"ftp://u:secret@b/\")": "status: http://xxxxx@a/x: 404 (\"ftp://xxxxx@b/\")",
		"http://a/mail?to=me@example.com":                           "http://a/mail?to=me@example.com",
		"http://a/@me":                                              "http://a/@me",
		"http://a/ me@b":                                            "http://a/ me@b",
		"me@example.com":                                            "me@example.com",
		"mailto:me@example.com":                                     "mailto:me@example.com",
		"https://a/p//secret@b":                                     "https://a/p//xxxxx@b",
	} {
		if got := Redact(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// FuzzRedact: no password of a URI that can be fetched is shown.
func FuzzRedact(f *testing.F) {
	f.Add("http://me:secret@a/")
	f.Add("http:\\\\/me:s@ret@a")
	f.Fuzz(func(t *testing.T, text string) {
		u, err := Parse(text)
		if err != nil || u.User == nil || strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r > '~' }) {
			return
		}
		shown := Redact(text)
		if again, err := Parse(shown); err != nil || again.User == nil || again.User.Username() != Redacted || again.Host != u.Host {
			t.Errorf("%q: shown as %q: %v", text, shown, err)
		}
	})
}
