//go:build unix

package logs

import (
	"fmt"
	"os"
	"syscall"
)

// ToJournal tells whether what is written to a file goes to systemd's journal, of which
// systemd gives the device and inode.
func ToJournal(f *os.File) bool {
	info, err := f.Stat()
	if err != nil {
		return false
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && os.Getenv("JOURNAL_STREAM") == fmt.Sprintf("%d:%d", stat.Dev, stat.Ino)
}
