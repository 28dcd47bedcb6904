package daemon_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/npmtest"
)

// TestSystemOpenAPI: public linters have nothing to say of what the programs serve as /openapi.yaml. They are npm
// packages, in the versions of testdata/openapi/package-lock.json.
func TestSystemOpenAPI(t *testing.T) {
	t.Parallel()
	dir := npmtest.Install(t, os.DirFS("testdata/openapi"))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	run := func(name string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(ctx, name, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", filepath.Base(name), err, out)
		}
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
