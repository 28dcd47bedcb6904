package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
)

// Files that the program needs to start are part of the settings: all that are missing are named, in the same order each time.
func TestConfigCheckReadsAllFiles(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	file := write(t, dir, "u.yaml", strings.ReplaceAll(`
store: mongodb
mongodb: {uri_file: NONE, tls: true, tls_ca_file: NONE}
redis: {addrs: ["127.0.0.1:6379"], password_file: NONE, tls: true, tls_ca_file: NONE}
filter: {url: "http://127.0.0.1:8000", token_file: NONE}
report: {webhook: "https://chat.example/x", webhook_token_file: NONE, mail_server: "mail.example:25", mail_from: a@example.com, mail_user: a, mail_password_file: NONE}
`, "NONE", none))
	var out, errOut bytes.Buffer
	code := run(t.Context(), []string{"config", "check", "--config", file}, nil, &out, &errOut)
	at := 0
	for _, key := range []string{"filter.token_file", "mongodb.uri_file", "redis.password_file", "report.webhook_token_file", "report.mail_password_file", "mongodb.tls_ca_file", "redis.tls_ca_file"} {
		i := strings.Index(errOut.String()[at:], key)
		if i < 0 {
			t.Errorf("nothing of %s, or too late: %s", key, &errOut)
			continue
		}
		at += i
	}
	if code != 1 || out.Len() > 0 {
		t.Errorf("got %d, %q", code, &out)
	}
	file = write(t, dir, "u.yaml", strings.ReplaceAll(`
filter: {url: "http://127.0.0.1:8000", token_file: TOKENS}
report: {webhook: "https://chat.example/x", webhook_token_file: TOKENS}
`, "TOKENS", write(t, dir, "tokens", "a\nb\n")))
	out.Reset()
	errOut.Reset()
	if code = run(t.Context(), []string{"config", "check", "--config", file}, nil, &out, &errOut); code != 1 || strings.Count(errOut.String(), "want one token and nothing else") != 2 {
		t.Errorf("files of two tokens: got %d, %s", code, &errOut)
	}
}
