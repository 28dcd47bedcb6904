package main

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/configs"
)

// The output of the command can be appended to a tokens file unchanged, and the daemon then
// knows the token.
func TestTokenNewMakesAnEntry(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokens.yaml")
	var text string
	secrets := map[string][]string{}
	for _, c := range []struct {
		args   []string
		scopes []string
	}{
		{nil, []string{"read", "filter"}},
		{[]string{"--name", "yes: #1", "--scopes", "admin"}, []string{"admin"}},
		{[]string{"--name", "reader", "--scopes", "read"}, []string{"read"}},
	} {
		code, out, errOut := cli(t, nil, "", append([]string{"token", "new"}, c.args...)...)
		lines := strings.Split(strings.TrimSpace(errOut), "\n")
		if code != 0 || len(lines) != 2 || strings.Contains(out, lines[1]) {
			t.Fatalf("%q: got %d, %q, %q", c.args, code, out, errOut)
		}
		secrets[lines[1]] = c.scopes
		text += out
	}
	write(t, file, text)
	tokens, _, err := configs.LoadTokens(file)
	if err != nil || len(tokens) != 3 || len(secrets) != 3 {
		t.Fatalf("%v of\n%s", err, text)
	}
	for secret, scopes := range secrets {
		if got, ok := tokens.Match(secret); !ok || !slices.Equal(got.Scopes, scopes) {
			t.Errorf("token of %d characters: got %+v, %v; want %q", len(secret), got, ok, scopes)
		}
	}
	code, out, errOut := cli(t, nil, "", "token", "new", "--json")
	var entry struct{ Name, Token, Digest string }
	if err := json.Unmarshal([]byte(out), &entry); code != 0 || err != nil || errOut != "" || entry.Name != "crawler" || len(entry.Token) != 48 || !strings.HasPrefix(entry.Digest, "sha256:") {
		t.Errorf("json: got %d, %v, %q, %q", code, err, out, errOut)
	}
	if code, _, errOut := cli(t, nil, "", "token", "new", "--scopes", "read,submit"); code != 2 || !strings.Contains(errOut, `"submit": want read or filter or forget or admin`+"\nhint: `uridownloader token new`") {
		t.Errorf("a scope of the downloader: %d, %q", code, errOut)
	}
	for _, args := range [][]string{{"--scopes", "root"}, {"--scopes", ""}, {"--name", ""}, {"--name", "a\nb"}} {
		if code, out, errOut := cli(t, nil, "", append([]string{"token", "new"}, args...)...); code != 2 || out != "" || !strings.Contains(errOut, args[0]+": ") {
			t.Errorf("%q: got %d, %q, %q", args, code, out, errOut)
		}
	}
}
