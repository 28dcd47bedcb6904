//go:build unix

package logs

import (
	"fmt"
	"os"
	"syscall"
)

// ToJournal reports whether writes to a file go to systemd's journal. systemd passes the
// journal's device and inode.
func ToJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
