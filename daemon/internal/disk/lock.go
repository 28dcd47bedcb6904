package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// lockEvery is how often AwaitLock tries. A holder that is killed tells nobody.
const lockEvery = 10 * time.Millisecond

// Lock is a lock file that this process holds. The system releases it when the
// process ends, however that happens.
type Lock struct{ f *os.File }

// InUseError is returned when another process holds a lock.
type InUseError struct {
	Path   string
	Holder string // what the holder wrote about itself: "process 123"
}

func (e *InUseError) Error() string { return fmt.Sprintf("%s: held by %s", e.Path, e.Holder) }

// AcquireLock locks the lock file at path, which it creates if missing, without waiting.
// It returns an *InUseError if somebody holds the lock.
func AcquireLock(path string) (*Lock, error) {
	l, err := acquire(path, tryLock)
	if err == nil {
		l.writeHolder()
	}
	return l, err
}

// AcquireSharedLock locks the lock file at path, which any number of processes may share, and
// tells whether this process is the first. It returns an *InUseError if somebody holds the lock
// alone. Callers must keep other processes from calling it at the same time, and until the first
// one has done what must be done before the others come; they use another lock file for that.
func AcquireSharedLock(path string) (_ *Lock, first bool, err error) {
	l, err := acquire(path, tryLock)
	switch {
	case err == nil:
		l.writeHolder()
		ok, err := share(l.f)
		if err == nil && ok {
			return l, true, nil
		}
		if err == nil { // a process that wants it alone came in between
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

// AwaitLock is AcquireLock, but waits for whoever holds the lock, until ctx ends. It calls held once
// with the holder, if there is one, before it waits.
func AwaitLock(ctx context.Context, path string, held func(*InUseError)) (*Lock, error) {
	for {
		l, err := AcquireLock(path)
		var inUse *InUseError
		if !errors.As(err, &inUse) {
			return l, err
		}
		if held != nil {
			held(inUse)
			held = nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lockEvery):
		}
	}
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

// writeHolder writes who holds the lock, only for the error above: the lock holds on a full disk too.
func (l *Lock) writeHolder() {
	if err := l.f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(l.f, "process %d\n", os.Getpid())
	}
}

// ID distinguishes the lock file from every other file of this machine, including copies of it;
// "" if the system does not say.
func (l *Lock) ID() string { return fileID(l.f) }

// Release releases the lock. The file stays. Closing it would not be enough: a process that
// another goroutine has just forked has the file open too, until its program begins.
func (l *Lock) Release() error { return errors.Join(unlock(l.f), l.f.Close()) }

// Gate lets one process at a time do something, in roughly the order of their arrival; a process
// that dies makes room for the next. A Gate is for one goroutine at a time.
type Gate struct{ f *os.File }

// OpenGate opens the file of a gate, which it creates if missing.
func OpenGate(path string) (*Gate, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	return &Gate{f}, nil
}

// Enter waits until no other process is inside.
func (g *Gate) Enter() error { return waitLock(g.f) }

// Leave lets the next one in.
func (g *Gate) Leave() error { return unlock(g.f) }

// Close leaves, and closes the file, which stays on disk.
func (g *Gate) Close() error { return g.f.Close() }
