package configs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

func TestTokensMatch(t *testing.T) {
	hashed := fmt.Sprintf("sha256:%X", sha256.Sum256([]byte("the operator's own secret")))
	tokens, warnings, err := LoadTokens(writeFile(t, "tokens.yaml", `
- {name: crawler, token: "abcdefghijklmnop", scopes: [read, filter]}
- {name: operator, token: "`+hashed+`", scopes: [admin]}
`))
	if err != nil || len(warnings) != 0 {
		t.Fatalf("LoadTokens: %v, warnings %q", err, warnings)
	}
	for secret, want := range map[string]Token{
		"abcdefghijklmnop":          {Name: "crawler", Scopes: []string{"read", "filter"}},
		"the operator's own secret": {Name: "operator", Scopes: []string{"admin"}},
	} {
		got, ok := tokens.Match(secret)
		if !ok || got.Name != want.Name || !reflect.DeepEqual(got.Scopes, want.Scopes) {
			t.Errorf("Match(%q) = %+v, %v; want %+v", secret, got, ok, want)
		}
	}
	for _, secret := range []string{"", "abcdefghijklmno", "abcdefghijklmnopq", "Abcdefghijklmnop", hashed, strings.ToLower(hashed)} {
		if got, ok := tokens.Match(secret); ok {
			t.Errorf("Match(%q) = %s, want none", secret, got.Name)
		}
	}
	if _, ok := (Tokens)(nil).Match("abcdefghijklmnop"); ok {
		t.Error("no tokens: something matched")
	}
}

func TestTokensKeepNoSecret(t *testing.T) {
	tokens, err := ParseTokensOf("t", []byte(`[{name: a, token: abcdefghijklmnop, scopes: [read]}]`), Scopes())
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%+v %#v", tokens, tokens); strings.Contains(text, "abcdefghijklmnop") {
		t.Errorf("token is in %s", text)
	}
}

func TestTokenDigestStandsForItsSecret(t *testing.T) {
	t.Parallel()
	const secret = "0123456789abcdef"
	tokens, err := ParseTokensOf("t.yaml", []byte("- {name: a, token: "+secret+", scopes: [read]}\n"), Scopes())
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseTokensOf("u.yaml", []byte("- {name: a, token: '"+tokens[0].Digest()+"', scopes: [read]}\n"), Scopes())
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := again.Match(secret); !ok {
		t.Error("the digest does not match the secret")
	}
}

// The tokens of the example are public: a daemon that accepted them would have no secret.
func TestTokensExampleIsRefused(t *testing.T) {
	_, _, err := LoadTokens(writeFile(t, "tokens.yaml", string(ExampleTokens)))
	if err == nil {
		t.Fatal("taken as it is")
	}
	for _, want := range []string{"token 1 (crawler): secret is the public one of tokens.example.yaml: want one of your own, as the command `token new` makes it", "token 2 (operator): secret is the public"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	if n := len(published()); n != 2 || strings.Count(err.Error(), "token ") != 2*2 {
		t.Errorf("%d tokens in the example, and another fault with them: %v", n, err)
	}
	// Its digest is just as public.
	plain := fmt.Sprintf("%x", sha256.Sum256([]byte("replace-me-with-48-hexadecimal-digits")))
	if _, _, err := LoadTokens(writeFile(t, "tokens.yaml", "[{name: a, token: 'sha256:"+plain+"', scopes: [read]}]")); err == nil {
		t.Error("taken as a digest")
	}
}

func TestTokensFaults(t *testing.T) {
	const good = "sEcretsEcretsEcret"
	for _, test := range []struct{ text, want string }{
		{"", "no tokens"},
		{"[]", "no tokens"},
		{"a: b", ":1: keys and values: want a list"},
		{"[{name: a, token: sEcretsEcret, scopes: [read]}]", "token 1 (a): secret of 12 characters: want 16 or more"},
		{"[{name: a, scopes: [read]}]", "token 1 (a): secret of 0 characters"},
		{"[{name: a, token: 'sEcret with some blanks', scopes: [read]}]", "token 1 (a): secret cannot stand in an HTTP header"},
		{"[{name: a, token: sEcretsEcret秘密秘密, scopes: [read]}]", "cannot stand in an HTTP header"},
		{"[{name: a, token: 'sha256:sEcretsEcretsEcret', scopes: [read]}]", "token 1 (a): malformed digest"},
		{"[{name: a, token: 12345678901234567890, scopes: [read]}]", ":1: [0].token: a number: want a text"},
		{"[{token: " + good + ", scopes: [read]}]", "token 1: no name"},
		{"[{name: a, token: " + good + "}]", "token 1 (a): no scopes"},
		{"[{name: a, token: " + good + ", scopes: [root]}]", `token 1 (a): scope: "root": want read or filter or forget or admin`},
		{"[{name: a, token: " + good + ", scope: [read]}]", ":1: [0].scope: unknown key; did you mean scopes?"},
		{"[{name: a, token: " + good + "1, scopes: [read]}, {name: a, token: " + good + "2, scopes: [read]}]", "token 2 (a): name is that of token 1"},
		{"[{name: a, token: " + good + ", scopes: [read]}, {name: b, token: " + good + ", scopes: [read]}]", "token 2 (b): secret is that of token 1"},
		{"[{name: a, token: abcdefghijklmnop, scopes: [read]}, {name: b, token: sha256:" + fmt.Sprintf("%x", sha256.Sum256([]byte("abcdefghijklmnop"))) + ", scopes: [read]}]", "secret is that of token 1"},
	} {
		_, _, err := LoadTokens(writeFile(t, "tokens.yaml", test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s:\ngot  %v\nwant %s", test.text, err, test.want)
		} else if strings.Contains(err.Error(), "sEcret") || strings.Contains(err.Error(), "123456") {
			t.Errorf("%s: the error tells the token: %v", test.text, err)
		}
	}
	if _, _, err := LoadTokens("no-such-file"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

func TestTokensFileMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // Windows has no such modes
	}
	path := writeFile(t, "tokens.yaml", "[{name: a, token: abcdefghijklmnop, scopes: [read]}]")
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o640: 0, 0o400: 0, 0o644: 1, 0o604: 1, 0o660: 1, 0o602: 1} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := LoadTokens(path)
		if err != nil || len(warnings) != want {
			t.Errorf("mode %#o: warnings %q, %v; want %d", mode, warnings, err, want)
		}
	}
}
