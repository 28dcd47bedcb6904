package durable

import (
	"fmt"
	"os"
	"strings"
)

// Lock is a lock file that this process holds. The system lets go of it when the
// process ends, however that happens.
type Lock struct{ f *os.File }

// InUseError is returned when another process holds a lock.
type InUseError struct {
	Path   string
	Holder string // what the holder wrote of itself: "process 123"
}

func (e *InUseError) Error() string { return fmt.Sprintf("%s: held by %s", e.Path, e.Holder) }

// AcquireLock takes the lock file at path, made if missing, without waiting.
// It returns an *InUseError when somebody holds it.
func AcquireLock(path string) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := tryLock(f)
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		holder, _ := os.ReadFile(path)
		f.Close()
		text := strings.TrimSpace(string(holder))
		if text == "" {
			text = "another process"
		}
		return nil, &InUseError{Path: path, Holder: text}
	}
	// For the message above only; on a full disk the lock holds all the same.
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "process %d\n", os.Getpid())
	}
	return &Lock{f}, nil
}

// ID tells the lock file from every other file of this machine, copies of it included; ""
// where the system does not say.
func (l *Lock) ID() string { return fileID(l.f) }

// Release lets go of the lock. The file stays.
func (l *Lock) Release() error { return l.f.Close() }
