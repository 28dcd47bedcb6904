package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/certtest"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
	"github.com/cr-clawer/urifilter/daemon/urifilter/internal/processtest"
)

// The load generator against a daemon with tokens and TLS, in each form and loop. This far below
// its capacity, the filter takes no new item for seen.
func TestLoadOfTheDaemon(t *testing.T) {
	dir := t.TempDir()
	authority := certtest.New(t, "authority")
	pair := authority.Issue(t, "daemon", time.Hour, "127.0.0.1")
	const admin, caller = "an-admin-of-the-daemon", "a-caller-of-the-daemon"
	tokens := filepath.Join(dir, "tokens.yaml")
	write(t, tokens, "- {name: boss, token: "+admin+", scopes: [admin]}\n- {name: crawler, token: "+caller+", scopes: [filter]}\n")
	if err := os.Chmod(tokens, 0o600); err != nil {
		t.Fatal(err)
	}
	addr, port := testserver.Free(t), testserver.Free(t)
	p := processtest.BeginAt(t, addr, filepath.Join(dir, "data"), []string{
		"URIFILTER_AUTH_TOKENS_FILE=" + tokens, "URIFILTER_TLS_CERT_FILE=" + pair.Cert, "URIFILTER_TLS_KEY_FILE=" + pair.Key, "URIFILTER_RESP_LISTEN=" + port,
	})
	env := func(token string) []string {
		return []string{"URIFILTER_URL=https://" + addr, "URIFILTER_TOKEN=" + token, "URIFILTER_RESP=rediss://" + port, "SSL_CERT_FILE=" + authority.File}
	}
	testserver.Await(t, "the daemon is ready", func() bool {
		code, _, _ := processtest.Command(t, dir, env(admin), "ping")
		return code == 0
	}, p.Log)
	before, _ := processtest.MustCommand(t, dir, env(admin), "filters", "list")
	for _, args := range [][]string{{"--protocol=json"}, {"--protocol=bits"}, {"--protocol=text", "--duplicates=0.9"}, {"--protocol=ndjson", "--rate=20k"}, {"--protocol=resp"}, {"--protocol=resp", "--rate=20k", "--duplicates=0.9"}, {"--batch=30000", "--protocol=text"}} {
		var code int
		var out, errOut string
		for duration := 500 * time.Millisecond; duration < 2*time.Minute; duration *= 4 {
			code, out, errOut = processtest.Command(t, dir, env(admin), append([]string{"bench", "load", "--json", "--duration=" + duration.String(), "--warm-up=100ms"}, args...)...)
			if !strings.Contains(errOut, "give it a longer --duration") { // a busy machine may need it
				break
			}
		}
		if code != 0 {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, out, errOut)
		}
		var r struct {
			Batches, Items int64
			Share          float64 `json:"duplicate_share"`
			Sent           float64 `json:"sent_duplicate_share"`
			Latency        struct{ P50, Max float64 }
		}
		if err := json.Unmarshal([]byte(strings.Replace(out, "latency_ms", "latency", 1)), &r); err != nil {
			t.Fatal(err)
		}
		if r.Batches < 1 || math.Abs(r.Share-r.Sent) > 0.0001 || r.Latency.P50 <= 0 || r.Latency.Max < r.Latency.P50 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if after, _ := processtest.MustCommand(t, dir, env(admin), "filters", "list"); after != before {
		t.Errorf("filters before\n%s\nafter\n%s", before, after)
	}
	if code, _, errOut := processtest.Command(t, dir, env(caller), "bench", "load"); code != 1 || !strings.Contains(errOut, "hint: give a token of the scope admin; with --filter NAME") {
		t.Errorf("a token that may make no filter: got %d, %q", code, errOut)
	}
	if out, errOut := processtest.MustCommand(t, dir, env(caller), "bench", "load", "--filter=ip", "--duration=500ms", "--warm-up=0s", "--batch=100"); !strings.Contains(out, "the filter ip keeps the items") {
		t.Errorf("got %s%s", out, errOut)
	}
	if code, _, errOut := processtest.Command(t, dir, env("nobody")[:3], "bench", "load"); code != 1 || !strings.Contains(errOut, "SSL_CERT_FILE") {
		t.Errorf("a certificate of nobody: got %d, %q", code, errOut)
	}
}
