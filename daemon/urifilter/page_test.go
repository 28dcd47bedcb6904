package main

import (
	"html"
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// TestPageOfADaemon: the page says what the settings say, and what it tells people to copy works when it is pasted.
func TestPageOfADaemon(t *testing.T) {
	t.Parallel()
	p := processtest.Start(t, t.TempDir(), []string{"URIFILTER_RESP_LISTEN=127.0.0.1:0"}, "--durability", "none")
	get := func(path string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.Addr+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", "text/html")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", path, resp.StatusCode, text, err)
		}
		return string(text)
	}
	for _, want := range []string{"embedded, durability none", html.EscapeString(command.ReadVersion().Version), "uri_generator"} {
		if text := get("/"); !strings.Contains(text, want) {
			t.Errorf("the page has no %q: %s", want, text)
		}
	}
	c, err := client.New("http://" + p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	calls := regexp.MustCompile(`(?s)<section aria-label="([^"]+)">.*?<code>(.*?)</code>`)
	source, err := filepath.Abs("../../python/src")
	if err != nil {
		t.Fatal(err)
	}
	for filter, spec := range map[string]client.FilterSpec{
		"bloom": {}, "exact": {Kind: "exact"}, "recent": {Kind: "timing"}, "scaling": {Kind: "scaling"}, "pages": {Kind: "simhash"},
	} {
		if _, _, err := c.CreateFilter(t.Context(), filter, spec); err != nil {
			t.Fatal(err)
		}
		run := map[string]string{}
		for _, found := range calls.FindAllStringSubmatch(get("/ui/filters/"+filter), -1) {
			run[found[1]] = html.UnescapeString(found[2])
		}
		shell := func(tool, script, want string, env ...string) {
			t.Helper()
			cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
			cmd.Env = append(cmd.Environ(), env...)
			if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("%s for %s: %v, %s\nof %s", tool, filter, err, out, script)
			}
		}
		if spec.Kind == "simhash" {
			shell("curl", run["curl"], `"new":true`)
			shell("Python", "python3 - <<'END'\n"+run["Python"]+"\nEND", "'fingerprint'", "PYTHONPATH="+source)
			continue
		}
		shell("curl", run["curl"], `"total":1,"duplicates":0`)
		shell("Python", "python3 - <<'END'\n"+run["Python"]+"\nprint(new)\nEND", "[]", "PYTHONPATH="+source)
		shell("redis-cli", run["redis-cli"]+"more", "https://example.com/more")
		if !strings.Contains(run["Go"], `c.Filter(ctx, "`+filter+`"`) {
			t.Errorf("Go: %s", run["Go"])
		}
	}
}
