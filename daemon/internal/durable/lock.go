package durable

import (
	"errors"
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
	l, err := acquire(path, tryLock)
	if err == nil {
		l.sign()
	}
	return l, err
}

// AcquireSharedLock takes the lock file at path for as many processes as want to share it, and
// tells whether this one is the first. It returns an *InUseError when somebody holds it alone.
// Callers must keep others from calling it meanwhile, and until the first one has done what it
// does before the others come: a lock file of their own is for that.
func AcquireSharedLock(path string) (_ *Lock, first bool, err error) {
	l, err := acquire(path, tryLock)
	switch {
	case err == nil:
		l.sign()
		ok, err := share(l.f)
		if err == nil && ok {
			return l, true, nil
		}
		if err == nil { // one that wants it alone came in between
			err = inUse(path)
		}
		l.f.Close()
		return nil, false, err
	case !errors.As(err, new(*InUseError)):
		return nil, false, err
	}
	l, err = acquire(path, tryShare)
	return l, false, err
}

func acquire(path string, try func(*os.File) (bool, error)) (*Lock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ok, err := try(f)
	switch {
	case err != nil:
		err = fmt.Errorf("lock %s: %w", path, err)
	case !ok:
		err = inUse(path)
	default:
		return &Lock{f}, nil
	}
	f.Close()
	return nil, err
}

func inUse(path string) error {
	holder, _ := os.ReadFile(path)
	text := strings.TrimSpace(string(holder))
	if text == "" {
		text = "another process"
	}
	return &InUseError{Path: path, Holder: text}
}

// sign says who holds the lock, for the error above only: on a full disk it holds all the same.
func (l *Lock) sign() {
	if err := l.f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(l.f, "process %d\n", os.Getpid())
	}
}

// ID tells the lock file from every other file of this machine, copies of it included; ""
// where the system does not say.
func (l *Lock) ID() string { return fileID(l.f) }

// Release lets go of the lock. The file stays. Closing it would not do: a process that another
// goroutine has just forked has the file, too, until its program begins.
func (l *Lock) Release() error { return errors.Join(unlock(l.f), l.f.Close()) }

// Gate lets one process at a time do something, in about the order in which they come; one that
// dies makes room for the next. It is for one goroutine at a time.
type Gate struct{ f *os.File }

// OpenGate opens the file that a gate is, made if missing.
func OpenGate(path string) (*Gate, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Gate{f}, nil
}

// Enter waits until no other process is within.
func (g *Gate) Enter() error { return waitLock(g.f) }

// Leave lets the next one in.
func (g *Gate) Leave() error { return unlock(g.f) }

// Close leaves, and lets go of the file, which stays.
func (g *Gate) Close() error { return g.f.Close() }
