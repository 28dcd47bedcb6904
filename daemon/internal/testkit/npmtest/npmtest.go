// Package npmtest installs packages of npm for tests.
package npmtest

import (
	"context"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Install returns a folder with the files of from, and with the packages that its package-lock.json names.
// Without node and npm the test is skipped.
func Install(t testing.TB, from fs.FS) (dir string) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%v; on Debian: apt-get install nodejs npm", err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir = t.TempDir()
	if err := os.CopyFS(dir, from); err != nil {
		t.Fatal(err)
	}
	install := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", filepath.Join(dir, "cache"))
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return dir
}
