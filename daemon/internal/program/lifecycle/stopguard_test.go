package lifecycle

import (
	"io"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// A hanging stop ends the process; one that completes does not.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		exits := make(chan int, 3)
		guard := func() *StopGuard {
			g := NewStopGuard(time.Minute, slog.New(slog.NewTextHandler(io.Discard, nil)))
			g.exit = func(code int) { exits <- code }
			return g
		}
		hangs, ends, never := guard(), guard(), guard()
		hangs.Arm()
		ends.Arm()
		time.Sleep(59 * time.Second)
		synctest.Wait()
		hangs.Arm() // again: the first one counts
		ends.Disarm()
		never.Disarm()
		never.Arm()
		if len(exits) > 0 {
			t.Fatalf("ended the process too early: %d", <-exits)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := len(exits); n != 1 {
			t.Fatalf("%d exits, want one", n)
		}
		if code := <-exits; code != 1 {
			t.Errorf("exit %d, want 1", code)
		}
	})
}
