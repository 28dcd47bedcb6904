package mongodb

import (
	"context"
	"time"
)

// asked is how long a reading of the server's time is used before the next one.
const asked = time.Second

// clock is the time of the server that takes writes. Between two readings it advances by the
// monotonic clock of this process, which nobody sets and which runs on while the process is
// halted. As each answer takes time, the true time is between two bounds; see moment.
type clock struct {
	fixed func() time.Time // for tests
	ask   func(context.Context) (time.Time, error)
	turn  chan struct{} // held by the goroutine that asks the server

	known         bool
	before, after time.Time // when the question was sent and answered, by our monotonic clock
	server        time.Time
}

// moment is now: the server's clock shows no less than least and no more than most. Use least to
// end what others hold, and most to grant something for a time, so that nobody gets less than was
// promised, however long the answer took.
type moment struct{ least, most time.Time }

func (c *clock) now(ctx context.Context) (moment, error) {
	if c.fixed != nil {
		at := c.fixed().UTC().Truncate(time.Millisecond)
		return moment{at, at}, nil
	}
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return moment{}, ctx.Err()
	}
	if !c.known || time.Since(c.after) >= asked {
		before := time.Now()
		server, err := c.ask(ctx)
		if err != nil {
			c.known = false
			return moment{}, err
		}
		c.known, c.before, c.after, c.server = true, before, time.Now(), server
	}
	return moment{
		least: c.server.Add(time.Since(c.after)).UTC().Truncate(time.Millisecond),
		most:  c.server.Add(time.Since(c.before)).UTC().Truncate(time.Millisecond).Add(2 * time.Millisecond), // it was cut to one, too
	}, nil
}

// until returns the end of what is granted for a time.
func (m moment) until(d time.Duration) time.Time { return m.most.Add(d) }
