package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
)

// Locks are those of flock. A sandbox's folder and the registry are locked themselves, not
// by a file in them: a process that waits for a folder that is being removed finds it gone,
// and leaves nothing in it.
//
// Programs that run under a lock hold it too. When the creator of a sandbox is killed, they
// are killed with it, but one that is in the kernel at that moment first completes its system
// call: it adds a link, say. And a process that must outlive the creator belongs to nobody until
// it is in its control group. So the lock is free only when the next holder can see what they made.

type heldKey struct{}

// holding returns a context whose programs hold the lock.
func holding(ctx context.Context, lock *os.File) context.Context {
	return context.WithValue(ctx, heldKey{}, append(slices.Clip(held(ctx)), lock))
}

func held(ctx context.Context) []*os.File {
	locks, _ := ctx.Value(heldKey{}).([]*os.File)
	return locks
}

// lockFile waits for the lock of a file, which is created if missing. Closing it releases the lock.
func lockFile(ctx context.Context, path string) (*os.File, error) {
	return waitForLock(ctx, path, os.O_RDWR|os.O_CREATE)
}

// lockFolder waits for the lock of a folder, which must exist.
func lockFolder(ctx context.Context, path string) (*os.File, error) {
	return waitForLock(ctx, path, os.O_RDONLY)
}

// makeAndLock waits for the lock of a folder, which is created if missing.
func makeAndLock(ctx context.Context, path string) (*os.File, error) {
	for {
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		lock, err := lockFolder(ctx, path)
		if !errors.Is(err, fs.ErrNotExist) {
			return lock, err
		}
	}
}

func waitForLock(ctx context.Context, path string, flag int) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, flag, 0o600)
		if err != nil {
			return nil, err
		}
		locked, err := tryLock(f)
		if locked && isAt(f, path) {
			return f, nil
		}
		f.Close()
		if err != nil {
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		if err := host.Sleep(ctx, 50*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

// isAt reports whether f is still the file at path: it may have been removed before it was locked.
func isAt(f *os.File, path string) bool {
	held, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(held, there)
}

// withLock calls do while nobody else makes or removes the sandbox of a folder. A folder that
// does not exist has no lock.
func withLock(ctx context.Context, dir string, do func(context.Context) error) error {
	lock, err := lockFolder(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return do(ctx)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	return do(holding(ctx, lock))
}
