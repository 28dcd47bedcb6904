package crawl

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/crawltest"
)

// TestCommand: what the command line asks for is done and kept for --resume, and refused with the next step
// where it cannot be.
func TestCommand(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&crawltest.Site{Pages: 100})
	t.Cleanup(server.Close)
	out := filepath.Join(t.TempDir(), "out")
	seed := server.URL + "/"
	for _, test := range []struct {
		code int
		want string
		args []string
	}{
		{2, "no seed: want one URI or more", nil},
		{2, `seed "example.com": want a URI with its scheme, such as https://example.com`, []string{"example.com", "--out", out}},
		{2, "--max-pages 0: want 1 or more", []string{seed, "-n", "0", "--out", out}},
		{2, `--scope "site": want host, domain, prefix, all`, []string{seed, "--scope", "site", "--out", out}},
		{2, `--graph "svg": want csv, dot, graphml`, []string{seed, "--graph", "svg", "--out", out}},
		{2, "--resume: want --out", []string{"--resume"}},
		{1, "there is no crawl in this folder", []string{"--resume", "--out", out}},
	} {
		code, _, errOut := run(t, test.args...)
		if code != test.code || !strings.Contains(errOut, test.want) {
			t.Errorf("%q: exit code %d, want %d: %s, want %q", test.args, code, test.code, errOut, test.want)
		}
		if _, err := os.Stat(out); !os.IsNotExist(err) {
			t.Fatalf("%q: there is a folder of a crawl that was refused: %v", test.args, err)
		}
	}
	code, said, errOut := run(t, seed, "--max-pages", "10", "--delay", "0", "--allow-private", "--out", out, "--graph", "dot")
	if code != 0 || !strings.HasPrefix(said, "10 pages\n") {
		t.Fatalf("exit code %d: %s%s", code, said, errOut)
	}
	if err := crawltest.Check(out, 10); err != nil {
		t.Error(err)
	}
	dot := filepath.Join(out, "graph.dot")
	if err := os.Remove(dot); err != nil {
		t.Error(err)
	}
	if code, _, errOut = run(t, seed, "--out", out); code != 1 || !strings.Contains(errOut, "go on with it by --resume") {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, _, errOut = run(t, "--resume", "--out", out, "--scope", "all"); code != 2 || !strings.Contains(errOut, `--scope all: the crawl was begun with "host", which stays`) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
	if code, said, errOut = run(t, "--resume", "--out", out, "--max-pages", "20"); code != 0 || !strings.HasPrefix(said, "20 pages\n") {
		t.Errorf("exit code %d: %s%s", code, said, errOut)
	}
	if err := crawltest.Check(out, 20); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dot); err != nil { // --graph is kept
		t.Error(err)
	}
}
