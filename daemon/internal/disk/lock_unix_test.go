//go:build unix

package disk

import (
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReleasedWhileAForkHasTheFile: another goroutine may start a program at the moment a lock is
// released. The forked process has the file until its program begins, and must not hold the lock.
func TestReleasedWhileAForkHasTheFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	forked, err := unix.Dup(int(lock.f.Fd())) // what a fork does to each file
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(forked)
	if err := lock.Release(); err != nil {
		t.Fatal(err)
	}
	again, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Release(); err != nil {
		t.Error(err)
	}
}
