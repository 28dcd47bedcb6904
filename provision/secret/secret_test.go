package secret

import (
	"strings"
	"testing"
)

func TestHide(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, want string }{
		{"yaml", "redis:\n  password: hunter22\n  address: a:1\n", "redis:\n  password: (secret)\n  address: a:1\n"},
		{"a file's name is none", "password_file: /etc/p\ntokens_file: /etc/t\n", "password_file: /etc/p\ntokens_file: /etc/t\n"},
		{"quoted", `"token": "abc def"`, `"token": (secret)`},
		{"list of maps", "- name: crawler\n  token: abc\n  scopes: [read]\n", "- name: crawler\n  token: (secret)\n  scopes: [read]\n"},
		{"below a secret key", "tokens:\n- name: a\n  token: b\n", "tokens:\n- name: a\n  token: (secret)\n"},
		{"list of scalars", "tokens:\n- abc\n- def\nlisten: x\n", "tokens:\n(secret)\n(secret)\nlisten: x\n"},
		{"block", "a:\n  secret: |\n    one\n\n    key: two\n  b: c\n", "a:\n  secret: |\n    (secret)\n\n    (secret)\n  b: c\n"},
		{"folded plain", "password: one\n  two\nb: c\n", "password: (secret)\n  (secret)\nb: c\n"},
		{"inline", `m: {user: x, password: "a, b", n: 1}`, `m: {user: x, password: (secret), n: 1}`},
		{"inline, several words", `- {name: x, token: a b c}`, `- {name: x, token: (secret)}`},
		{"inline list", `auth: {tokens: [a, b], on: true}`, `auth: {tokens: (secret), on: true}`},
		{"inline map", `{"auth": {"token": "a", "scopes": ["b"]}}`, `{"auth": {"token": (secret), "scopes": ["b"]}}`},
		{"inline map below a secret key", `{tokens: {a: b}}`, `{tokens: {a: b}}`},
		{"url with / in the password", "uri: mongodb://u:p/x@h/db\n", "uri: mongodb://u:(secret)@h/db\n"},
		{"redis", "requirepass abc def\nmaxmemory 1gb\n", "requirepass (secret)\nmaxmemory 1gb\n"},
		{"environment", "export URIFILTER_MONGODB_PASSWORD=abc\nA=b\n", "export URIFILTER_MONGODB_PASSWORD=(secret)\nA=b\n"},
		{"url", "uri: mongodb://u:p%40ss@h:27017/x # mongodb://u:p@h\n", "uri: mongodb://u:(secret)@h:27017/x # mongodb://u:(secret)@h\n"},
		{"url with @ in the password", "uri: mongodb://u:p@ss@h/\n", "uri: mongodb://u:(secret)@h/\n"},
		{"url without a user", "redis://:abc@h:1 http://h:80/a b@c\n", "redis://:(secret)@h:1 http://h:80/a b@c\n"},
		{"given key", "mongodb:\n  uri: x\n", "mongodb:\n  uri: (secret)\n"},
		{"windows line ends", "token: a\r\nb: c\r\n", "token: (secret)\r\nb: c\r\n"},
		{"no line end", "token: a", "token: (secret)"},
		{"comment with a value", "# password: old-one\n", "# password: (secret)\n"},
		{"comment in words", "# token   what the caller presents\n", "# token   what the caller presents\n"},
		{"empty", "", ""},
	} {
		var keys []string
		if c.name == "given key" {
			keys = []string{"uri"}
		}
		if got := Hide(c.text, keys...); got != c.want {
			t.Errorf("%s:\ngot\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

func TestHidePairShowsThatASecretChanges(t *testing.T) {
	t.Parallel()
	old, new := HidePair("token: aaaa\npassword: bbbb\n", "token: aaaa\npassword: cccc\n")
	if old != "token: (secret)\npassword: (secret)\n" {
		t.Errorf("old: %s", old)
	}
	if new != "token: (secret)\npassword: (secret, changed)\n" {
		t.Errorf("new: %s", new)
	}
}

func TestMasker(t *testing.T) {
	t.Parallel()
	var m Masker
	m.Add("hunter22", "hunter22-longer", "a b&c/", "", "abc", "-----BEGIN-----\nbase64line\n")
	for text, want := range map[string]string{
		"echo hunter22 | x":         "echo (secret) | x",
		"hunter22-longer":           "(secret)",
		"u=a+b%26c%2F":              "u=(secret)",
		"only base64line of it":     "only (secret) of it",
		"abc is too short to be it": "abc is too short to be it",
	} {
		if got := m.Mask(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	var none *Masker
	if got := none.Mask("x"); got != "x" {
		t.Errorf("nil: %q", got)
	}
}

func FuzzHide(f *testing.F) {
	f.Add("a: b\npassword: c", "\n  d")
	f.Add("tokens:\n", "- x")
	f.Fuzz(func(t *testing.T, a, b string) {
		text := a + "\n" + b
		got := Hide(text)
		if strings.Count(got, "\n") != strings.Count(text, "\n") {
			t.Errorf("lines of %q changed: %q", text, got)
		}
		// A plain value of a secret key is never left, whatever surrounds it.
		if got := Hide(a + "\npassword: kq7Zx93vLm\n" + b); strings.Contains(got, "kq7Zx93vLm") {
			t.Errorf("left in %q", got)
		}
	})
}
