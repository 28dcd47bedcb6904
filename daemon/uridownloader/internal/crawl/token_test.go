package crawl

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client/clienttest"
)

// A crawl finds the token of its filter's daemon where all commands do, and reads it as they do.
func TestTokenOfTheFilter(t *testing.T) {
	daemon := clienttest.NewServer(t)
	daemon.RequireToken("secret-of-the-test")
	site := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(site.Close)
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, two := write("good", "secret-of-the-test\r\n\n"), write("two", "secret-of-the-test\nb\n")
	for _, c := range []struct {
		variable string // URIFILTER_TOKEN_FILE
		args     []string
		want     string
	}{
		{"", []string{"--token-file", good}, "no page was stored: http_404"},
		{good, nil, "no page was stored: http_404"},
		{"", []string{"--token", "secret-of-the-test"}, "no page was stored: http_404"},
		{"", nil, "401"},
		{"", []string{"--token-file", two}, "two: want one token and nothing else"},
		{two, nil, "two: want one token and nothing else"},
	} {
		t.Setenv("URIFILTER_TOKEN_FILE", c.variable)
		out := filepath.Join(t.TempDir(), "out")
		code, _, errOut := run(t, append([]string{site.URL, "--allow-private", "--attempts", "1", "--out", out, "--server", daemon.URL}, c.args...)...)
		if code != 1 || !strings.Contains(errOut, c.want) || strings.Contains(errOut, "secret-of-the-test") {
			t.Errorf("%+v: exit code %d, %s", c, code, errOut)
		}
	}
}
