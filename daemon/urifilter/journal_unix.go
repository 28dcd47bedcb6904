//go:build unix

package main

import (
	"fmt"
	"os"
	"syscall"
)

// toJournal tells whether what is written to a file goes to systemd's journal, of which
// systemd gives the device and inode.
func toJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
