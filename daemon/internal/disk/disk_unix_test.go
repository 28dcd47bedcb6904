//go:build unix

package disk_test

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// A pipe or a device is not replaced: root would take /dev/null away from all programs.
func TestWriteFileLeavesAPipe(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (disk.FS{}).WriteFile("x", pipe, func(*disk.File) error { return nil }); err == nil {
		t.Error("was replaced")
	}
	if info, err := os.Stat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("%v, %v", info, err)
	}
}
