package timing

import "time"

// Clock tells the time in two ways. Its functions are safe for concurrent use.
type Clock struct {
	// Elapsed is the time since some moment. It never goes back or jumps, whatever is
	// done to the machine's clock.
	Elapsed func() time.Duration
	// Wall is the machine's clock, which may be set. It is read when a Table is created and
	// when one is written to disk, and never to find out whether a key has expired.
	Wall func() time.Time
}

// SystemClock returns the machine's clock. If the system suspends the machine, Elapsed may not
// count that time.
func SystemClock() Clock {
	start := time.Now()
	return Clock{Elapsed: func() time.Duration { return time.Since(start) }, Wall: time.Now}
}

// both reads both clocks at one moment, or as nearly so as possible if the machine makes this
// process wait between the two.
func (c Clock) both() (elapsed time.Duration, wall time.Time) {
	least := time.Duration(-1)
	for range 100 {
		before := c.Elapsed()
		now := c.Wall()
		if gap := c.Elapsed() - before; least < 0 || gap < least {
			elapsed, wall, least = before, now, gap
		}
		if least < 100*time.Microsecond {
			break
		}
	}
	return elapsed, wall
}

// Reading is what both clocks showed at one moment, in milliseconds.
type Reading struct {
	Table int64 // the table's time, see Table
	Wall  int64 // since 1970 UTC
}

// after returns the table's time now, if it was r when last seen and only the machine's clock
// tells how much time has passed since.
func (r Reading) after(wall time.Time) int64 {
	return r.Table + max(0, wall.UnixMilli()-r.Wall)
}
