package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The test program holds a lock when it is called with one, until its input ends.
const holdEnv = "DURABLE_TEST_HOLD"

func TestMain(m *testing.M) {
	if path := os.Getenv(holdEnv); path != "" {
		_, err := AcquireLock(path)
		fmt.Println(err)
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// TestLockOfAnotherProcess: the error names its holder, and the holder's death frees it.
func TestLockOfAnotherProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), holdEnv+"="+path)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 100)
	n, err := out.Read(said)
	if err != nil || string(said[:n]) != "<nil>\n" {
		t.Fatalf("it says %q, %v", said[:n], err)
	}
	var held *InUseError
	if _, err := AcquireLock(path); !errors.As(err, &held) || held.Holder != fmt.Sprintf("process %d", cmd.Process.Pid) || !strings.Contains(err.Error(), path) {
		t.Errorf("while it is held: %v", err)
	}
	if _, _, err := AcquireSharedLock(path); !errors.As(err, &held) {
		t.Errorf("to share it while it is held: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	lock, err := AcquireLock(path)
	if err != nil {
		t.Fatalf("after its death: %v", err)
	}
	if lock.ID() == "" {
		t.Error("the lock has no id")
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// TestAwaitLock: it says once who holds the lock, and gets it when that one has gone; or its context ends.
func TestAwaitLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	holder, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	if _, err := AwaitLock(ctx, path, func(*InUseError) { stop(errors.New("a signal")) }); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it waits: %v", err)
	}
	said := 0
	lock, err := AwaitLock(t.Context(), path, func(e *InUseError) {
		if said++; e.Holder != fmt.Sprintf("process %d", os.Getpid()) {
			t.Errorf("it waits for %s", e.Holder)
		}
		if err := holder.Release(); err != nil {
			t.Error(err)
		}
	})
	if err != nil || said != 1 {
		t.Fatalf("said %d times: %v", said, err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
	if lock, err = AwaitLock(t.Context(), path, func(e *InUseError) { t.Error(e) }); err != nil {
		t.Fatal(err)
	}
	if err := lock.Release(); err != nil {
		t.Error(err)
	}
}

// TestSharedLock: the first one is told so, all others share it, and nobody gets it alone until all have gone.
func TestSharedLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	var locks []*Lock
	for i := range 3 {
		l, first, err := AcquireSharedLock(path)
		if err != nil || first != (i == 0) {
			t.Fatalf("the %dth: first %v, %v", i, first, err)
		}
		locks = append(locks, l)
	}
	for _, l := range locks {
		if _, err := AcquireLock(path); !errors.As(err, new(*InUseError)) {
			t.Errorf("alone, while it is shared: %v", err)
		}
		if err := l.Release(); err != nil {
			t.Fatal(err)
		}
	}
	alone, err := AcquireLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := alone.Release(); err != nil {
		t.Error(err)
	}
	if _, first, err := AcquireSharedLock(path); err != nil || !first {
		t.Errorf("after all have gone: first %v, %v", first, err)
	}
}

// TestGate: one at a time is within.
func TestGate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "gate")
	const others, turns = 4, 50
	within := make(chan struct{}, 1)
	failed := make(chan error, others)
	for range others {
		go func() {
			failed <- func() error {
				g, err := OpenGate(path)
				if err != nil {
					return err
				}
				for range turns {
					if err := g.Enter(); err != nil {
						return err
					}
					select {
					case within <- struct{}{}:
					default:
						return errors.New("two are within")
					}
					<-within
					if err := g.Leave(); err != nil {
						return err
					}
				}
				return g.Close()
			}()
		}()
	}
	for range others {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
