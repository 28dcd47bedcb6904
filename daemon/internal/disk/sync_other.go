//go:build !linux

package disk

import (
	"os"
	"runtime"
	"syscall"
)

var errQuota error = syscall.ENOSPC // where there is no EDQUOT

func datasync(f *os.File) error { return f.Sync() }

func beginSync(*os.File, int64, int64) {}

// openDir returns nil on Windows, which cannot sync a directory.
func openDir(path string) (*os.File, error) {
	if runtime.GOOS == "windows" {
		return nil, nil
	}
	return os.Open(path)
}
