package mongodb

import (
	"context"
	"time"
)

// asked is after how long the server's time is asked for again.
const asked = time.Second

// clock is the time of the server that takes writes. Between two questions it goes on with the
// steady clock of this process, which is not set and goes on while the process is halted. As the
// answer takes its time, what it tells is between two bounds; see moment.
type clock struct {
	fixed func() time.Time // of tests
	ask   func(context.Context) (time.Time, error)
	turn  chan struct{} // held by the goroutine that asks

	known         bool
	before, after time.Time // the question, by our steady clock
	server        time.Time
}

// moment is now, of which the server's clock shows no less than least and no more than most. Who
// ends what others hold goes by least, and who grants something until a time counts from most, so
// that nobody has less than was said, however long the answer took.
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

// until is the end of what is granted for a time.
func (m moment) until(d time.Duration) time.Time { return m.most.Add(d) }
