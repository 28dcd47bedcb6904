package load

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// timersLate is more than the runtime's timers are late: while nothing else is to be done it
// waits in whole milliseconds, which is more than a batch takes.
const timersLate = 2 * time.Millisecond

// sleepPrecisely waits by the kernel's timer, to some 50 microseconds.
func sleepPrecisely(ctx context.Context, until time.Time) {
	sleepUntil(ctx, until.Add(-timersLate))
	for ctx.Err() == nil {
		d := time.Until(until)
		if d <= 0 {
			return
		}
		left := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&left, nil) // what a signal cuts short goes on
	}
}
