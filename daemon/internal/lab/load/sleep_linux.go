package load

import (
	"context"
	"time"

	"golang.org/x/sys/unix"
)

// timersLate is more than the runtime's timers are late: while there is nothing else to do, the
// runtime waits in whole milliseconds, which is longer than a batch takes.
const timersLate = 2 * time.Millisecond

// sleepPrecisely waits with the kernel's timer, to within some 50 microseconds.
func sleepPrecisely(ctx context.Context, until time.Time) {
	sleepUntil(ctx, until.Add(-timersLate))
	for ctx.Err() == nil {
		d := time.Until(until)
		if d <= 0 {
			return
		}
		left := unix.NsecToTimespec(int64(d))
		_ = unix.Nanosleep(&left, nil) // if a signal cuts it short, the loop continues
	}
}
