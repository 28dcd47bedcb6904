package fleet

import (
	"errors"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/hosttest"
)

// The lock over SSH, on Debian: who holds it, the way out that the refusal names, and a laptop
// that vanishes from the network without a word.
func TestSystemLockOnARealHost(t *testing.T) {
	t.Parallel()
	h := hosttest.New(t, "bookworm")
	info := LockInfo{Who: "alice@laptop", What: "deploy", Run: "r1", silence: 12}
	lost := make(chan error, 1)
	first, err := acquire(t.Context(), h, info, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	_, err = acquire(t.Context(), h, LockInfo{Who: "bob"}, func(error) { t.Error("never had") })
	var held *LockedError
	if !errors.As(err, &held) {
		t.Fatalf("second run: %v", err)
	}
	t.Log(held)
	if held.Who != info.Who || held.What != info.What || held.Run != info.Run || held.From != h.Gateway || held.PID == "" || held.Since == "" {
		t.Errorf("refusal: %+v", held)
	}
	if got := h.Sh(t, "stat -c '%U %a' "+host.LockPath); got != "root 600" {
		t.Errorf("lock file: %s", got)
	}
	h.Sh(t, "kill "+held.PID)
	if err := <-lost; !errors.Is(err, errLockLost) {
		t.Errorf("lost: %v", err)
	}
	first.release(t.Context(), time.Second)

	second, err := acquire(t.Context(), h, info, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Sandbox.Isolate(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for { // ends when the host has released the lock
		if _, err := h.Sandbox.Exec(t.Context(), "flock -n "+host.LockPath+" true"); err == nil {
			break
		}
		time.Sleep(time.Second)
	}
	if err := h.Sandbox.Isolate(t.Context(), false); err != nil {
		t.Fatal(err)
	}
	second.release(t.Context(), time.Second)
	third, err := acquire(t.Context(), h, info, func(err error) { t.Errorf("lost: %v", err) })
	if err != nil {
		t.Fatal(err)
	}
	third.release(t.Context(), 10*time.Second)
}
