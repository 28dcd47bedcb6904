package mongotest

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// What is built: the last release of FerretDB that needs no PostgreSQL, pinned by its checksum as
// in a go.sum.
const (
	ferretModule  = "github.com/FerretDB/FerretDB"
	ferretVersion = "v1.24.0"
	ferretSum     = "h1:7WJmezL48Bj9bYWnhT/bEJgX5gjT5s7LFdHTqkN25rA="
)

// build returns the server's binary, in the folder .cache of the repository. The very first call
// builds it, in about a minute; calls that come meanwhile, in any process, wait. The binary is
// renamed into place when it is complete.
func build(t testing.TB) string {
	t.Helper()
	cache, err := cacheDir()
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(cache, "ferretdb-"+ferretVersion+"-"+runtime.GOOS+"-"+runtime.GOARCH)
	if runtime.GOOS == "windows" {
		binary += ".exe"
	}
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	lock, err := disk.AwaitLock(t.Context(), filepath.Join(cache, "ferretdb.lock"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Release()
	if _, err := os.Stat(binary); err == nil {
		return binary
	}
	t.Logf("building %s %s, once", ferretModule, ferretVersion)
	if err := buildTo(binary, cache); err != nil {
		t.Fatalf("build ferretdb: %v", err)
	}
	return binary
}

// cacheDir returns the folder .cache beside the go.mod above the working directory.
func cacheDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			break
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
	dir = filepath.Join(dir, ".cache")
	return dir, os.MkdirAll(dir, 0o755)
}

// buildTo compiles the module as the main one, in a copy: its program refuses to start
// without the file version.txt, which the module does not have. It compiles as the tests of this module are
// compiled, and with this module's SQLite, so that they share it and the standard library.
func buildTo(binary, cache string) error {
	source, err := download(cache)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp(cache, "ferretdb-src-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	if err := os.CopyFS(filepath.Join(work, "src"), os.DirFS(source)); err != nil {
		return err
	}
	version := filepath.Join(work, "src", "build", "version", "version.txt")
	if err := os.WriteFile(version, []byte(ferretVersion+"\n"), 0o600); err != nil {
		return err
	}
	sqlite, err := goCommand(filepath.Dir(cache), "list", "-mod=readonly", "-m", "modernc.org/sqlite").Output()
	if err != nil {
		return fmt.Errorf("the version of SQLite: %w", err)
	}
	built := filepath.Join(work, "ferretdb")
	for _, args := range [][]string{
		{"mod", "edit", "-require=" + strings.Join(strings.Fields(string(sqlite)), "@")},
		{"build", "-tags=ferretdb_no_postgresql", "-trimpath", "-gcflags=all=-dwarf=false", "-ldflags=-s -w", "-o", built, "./cmd/ferretdb"},
	} {
		if out, err := goCommand(filepath.Join(work, "src"), args...).CombinedOutput(); err != nil {
			return fmt.Errorf("go %s: %w\n%s", args[0], err, out)
		}
	}
	return os.Rename(built, binary)
}

// download returns the folder of the module in Go's cache.
func download(dir string) (string, error) {
	out, err := goCommand(dir, "mod", "download", "-json", ferretModule+"@"+ferretVersion).Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr != nil {
		return "", errors.Join(err, jsonErr)
	}
	switch {
	case module.Error != "":
		return "", errors.New(module.Error)
	case err != nil:
		return "", err
	case module.Sum != ferretSum:
		return "", fmt.Errorf("checksum %s, want %s", module.Sum, ferretSum)
	}
	return module.Dir, nil
}

// goCommand returns the go command without the settings of this module's own build.
func goCommand(dir string, args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0")
	return cmd
}
