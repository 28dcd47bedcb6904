package disk

import (
	"os"

	"golang.org/x/sys/windows"
)

func tryLock(f *os.File) (bool, error) { return lockFile(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

func tryShare(f *os.File) (bool, error) { return lockFile(f, 0) }

// share turns an exclusive lock into a shared one.
func share(f *os.File) (bool, error) {
	if err := unlock(f); err != nil {
		return false, err
	}
	return tryShare(f)
}

// place is one byte far beyond the content, so that others may still read the content.
func place() windows.Overlapped { return windows.Overlapped{Offset: 1 << 30} }

func lockFile(f *os.File, how uint32) (bool, error) {
	at := place()
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, err
}

func waitLock(f *os.File) error {
	at := place()
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK, 0, 1, 0, &at)
}

func unlock(f *os.File) error {
	at := place()
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, &at)
}

func fileID(*os.File) string { return "" }
