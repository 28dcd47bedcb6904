package members

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// Only names written under the same lock file, in the same boot, are certainly dead.
func TestLives(t *testing.T) {
	if runtime.GOOS != "linux" {
		return // other systems never claim anything
	}
	dir := filepath.Join(t.TempDir(), "data")
	take := func(dir, self string, want ...string) *disk.Lock {
		t.Helper()
		lock, dead, err := takeLives(dir, self)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(dead, want) {
			t.Errorf("%s: dead are %q, want %q", self, dead, want)
		}
		return lock
	}
	first := take(dir, "a:1")
	var inUse *disk.InUseError
	if _, dead, err := takeLives(dir, "a:2"); !errors.As(err, &inUse) || dead != nil {
		t.Errorf("while another process holds it: %q, %v", dead, err)
	}
	copied := t.TempDir() // as on a machine that is cloned while the daemon runs
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	_ = take(copied, "b:1").Release()
	_ = take(copied, "b:2", "b:1").Release()
	_ = first.Release()
	_ = take(dir, "a:3", "a:1").Release()

	file := filepath.Join(dir, livesFile)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]string{
		"another boot": strings.Replace(string(text), bootID(), "00000000-0000-0000-0000-000000000000", 1),
		"damaged":      string(text[:len(text)/2]),
		"empty":        "",
	} {
		if err := os.WriteFile(file, []byte(other), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = take(dir, name).Release()
	}
	for i := range 3 * maxLives {
		lock, dead, err := takeLives(dir, strings.Repeat("x", i+1))
		if err != nil || len(dead) > maxLives {
			t.Fatalf("%d names, %v", len(dead), err)
		}
		_ = lock.Release()
	}
}
