package connection_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

func TestTokenFile(t *testing.T) {
	s := clienttest.NewServer(t)
	s.RequireToken("secret-of-the-test")
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, wrong, two, empty := write("good", "secret-of-the-test\r\n"), write("wrong", "x"), write("two", "a\nb\n"), write("empty", "\n")
	for _, c := range []struct {
		variable, file string // URIFILTER_TOKEN, URIFILTER_TOKEN_FILE
		args           []string
		code           int
		want           string
	}{
		{"", "", []string{"--token-file", good}, 0, "uri"},
		{"", good, nil, 0, "uri"},
		{"secret-of-the-test", wrong, nil, 0, "uri"},
		{"wrong", wrong, []string{"--token-file", good}, 0, "uri"},
		{"wrong", wrong, []string{"--token", "secret-of-the-test"}, 0, "uri"},
		{"", "", nil, 1, "hint: give a token with --token-file"},
		{"", wrong, nil, 1, "401"},
		{"", filepath.Join(dir, "none"), nil, 1, "token file: open"},
		{"", two, nil, 1, "two: want one token and nothing else"},
		{"", "", []string{"--token-file", empty}, 1, "empty: want one token and nothing else"},
		{"", "", []string{"--token-file", good, "--token", "x"}, 2, "--token and --token-file: want one of them"},
	} {
		t.Setenv("URIFILTER_TOKEN", c.variable)
		t.Setenv("URIFILTER_TOKEN_FILE", c.file)
		code, out, errOut := program.Ask(t, s, "", append([]string{"filters", "list"}, c.args...)...)
		if code != c.code || !strings.Contains(out+errOut, c.want) {
			t.Errorf("%+v: got code %d, output %q, errors %q", c, code, out, errOut)
		}
		if strings.Contains(errOut, "secret-of-the-test") {
			t.Errorf("%+v: the token is in %q", c, errOut)
		}
	}
}
