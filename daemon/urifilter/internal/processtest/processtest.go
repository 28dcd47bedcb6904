// Package processtest has tests run the program urifilter as a process: it builds the
// daemon, starts it, asks it, runs commands beside it, and stands in for its service
// manager. The tests that need this are in its folders, one for each theme, and beside the
// commands in daemon/urifilter.
package processtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// built is the daemon, which is built once for all tests of a package.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "urifilter-test-")
	if err != nil {
		return "", err
	}
	folder = dir
	path := filepath.Join(dir, "urifilter")
	if out, err := exec.Command("go", "build", "-o", path, "github.com/cr-clawer/urifilter/daemon/urifilter").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build: %w\n%s", err, out)
	}
	return path, nil
})

// folder of the binary; "": it is not built.
var folder string

// Binary is the path of the daemon, which is built when it is first asked for.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is TestMain of a package that uses this one: it removes the binary in the end.
func Main(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}
