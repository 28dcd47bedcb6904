//go:build unix

package disk

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

func tryLock(f *os.File) (bool, error) { return flock(f, unix.LOCK_EX) }

func tryShare(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH) }

// share turns an exclusive lock into a shared one.
func share(f *os.File) (bool, error) { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) (bool, error) {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err == unix.EWOULDBLOCK {
		return false, nil
	}
	return err == nil, err
}

func waitLock(f *os.File) error {
	for {
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != unix.EINTR {
			return err
		}
	}
}

func unlock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

func fileID(f *os.File) string {
	var st unix.Stat_t
	if unix.Fstat(int(f.Fd()), &st) != nil {
		return ""
	}
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}
