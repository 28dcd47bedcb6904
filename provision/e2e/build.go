package e2e

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cr-clawer/urifilter/provision/e2e/programs"
)

// builds holds what is built, once for all tests of a process, in a folder that Main
// removes.
var builds struct {
	sync.Mutex
	dir  string
	made map[string]string // paths, by what they are
}

// Main runs the tests of a package: func TestMain(m *testing.M) { os.Exit(e2e.Main(m)) }.
func Main(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "urifilter-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	builds.dir, builds.made = dir, map[string]string{}
	return m.Run()
}

// once returns what has that name, and builds it if that has not been done yet.
func once(t *testing.T, name string, build func(dir string) (string, error)) string {
	t.Helper()
	builds.Lock()
	defer builds.Unlock()
	if builds.dir == "" {
		t.Fatal("TestMain does not call e2e.Main")
	}
	if builds.made[name] == "" {
		path, err := build(builds.dir)
		if err != nil {
			t.Fatal(err)
		}
		builds.made[name] = path
	}
	return builds.made[name]
}

// compiled returns the targets as one program, as `mage -compile` makes it for operators
// who have no Go.
func compiled(t *testing.T) string {
	t.Helper()
	return once(t, "mage", func(dir string) (string, error) {
		root, err := programs.Root(context.Background())
		if err != nil {
			return "", err
		}
		out := filepath.Join(dir, "mage")
		cmd := exec.Command("go", "tool", "mage", "-compile", out)
		cmd.Dir = root
		if text, err := cmd.CombinedOutput(); err != nil {
			return "", fmt.Errorf("mage -compile: %w\n%s", err, text)
		}
		return out, nil
	})
}

// Program returns the daemon that the inventory names.
func (l *Laptop) Program(t *testing.T) string { return l.Another(t, "first") }

// Another returns the same daemon with a mark that makes it another release.
func (l *Laptop) Another(t *testing.T, mark string) string {
	t.Helper()
	return once(t, "real "+mark, func(dir string) (string, error) { return programs.Real(context.Background(), dir, mark) })
}

// Downloader returns uridownloader; another mark makes it another release.
func (l *Laptop) Downloader(t *testing.T, mark string) string {
	t.Helper()
	return once(t, "downloader "+mark, func(dir string) (string, error) { return programs.Downloader(context.Background(), dir, mark) })
}

// Broken returns a release that is broken in one of the modes of package programs.
func (l *Laptop) Broken(t *testing.T, mode string) string { return l.BrokenOf(t, l.Program(t), mode) }

// BrokenOf is Broken for another program.
func (l *Laptop) BrokenOf(t *testing.T, real, mode string) string {
	t.Helper()
	return once(t, "broken "+mode+" "+real, func(dir string) (string, error) {
		if dir = filepath.Join(dir, "broken "+filepath.Base(real)); os.MkdirAll(dir, 0o755) != nil {
			return "", fmt.Errorf("%s cannot be made", dir)
		}
		return programs.Broken(context.Background(), dir, real, mode)
	})
}
