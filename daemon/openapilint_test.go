package daemon_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestSystemOpenAPI: public linters have nothing to say of what the programs serve as /openapi.yaml. They are npm
// packages, in the versions of testdata/openapi/package-lock.json.
func TestSystemOpenAPI(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v; on Debian: apt-get install nodejs npm", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/openapi")); err != nil {
		t.Fatal(err)
	}
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(name), err, out)
		}
	}
	run("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", filepath.Join(dir, "cache"))
	if t.Failed() {
		t.FailNow()
	}
	for _, file := range []string{"internal/front/http/openapi.yaml", "internal/download/master/openapi.yaml"} {
		file, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		run(filepath.Join(dir, "node_modules/.bin/redocly"), "lint", "--extends=recommended-strict", "--max-problems=20", file)
		run(filepath.Join(dir, "node_modules/.bin/spectral"), "lint", "--ruleset", "spectral.yaml", "--fail-severity", "warn", file)
	}
}
