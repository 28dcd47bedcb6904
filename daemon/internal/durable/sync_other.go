//go:build !linux

package durable

import (
	"os"
	"runtime"
	"syscall"
)

var errQuota error = syscall.ENOSPC // where there is no EDQUOT

func datasync(f *os.File) error { return f.Sync() }

// syncDir does nothing on Windows, which has no such call.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
