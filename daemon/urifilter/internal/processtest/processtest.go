// Package processtest lets tests run the program urifilter as a process: it builds the
// daemon, starts it, calls it, runs commands beside it, and stands in for its service
// manager. The tests that need this are in its subfolders, one for each topic, and beside the
// commands in daemon/urifilter.
package processtest

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/testkit/testserver"
)

// built is the daemon, built once for all tests of a package.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "urifilter-test-")
	if err != nil {
		return "", err
	}
	folder = dir
	path := filepath.Join(dir, "urifilter")
	return path, testserver.Program(path, nil, "github.com/cr-clawer/urifilter/daemon/urifilter")
})

// folder of the binary; "": not yet built.
var folder string

// Binary returns the path of the daemon, which the first call builds.
func Binary(t testing.TB) string {
	t.Helper()
	path, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Main is the TestMain of a package that uses this one: it removes the binary at the end.
func Main(m *testing.M) {
	code := m.Run()
	if folder != "" {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}
