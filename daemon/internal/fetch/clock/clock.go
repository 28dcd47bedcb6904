// Package clock measures the time that somebody may take, without the time that they wait for their turn. It knows
// neither what is limited nor what is waited for.
package clock

import (
	"sync"
	"time"
)

// Clock calls a function once its time has run out. Its methods may be called by several goroutines.
type Clock struct {
	mu     sync.Mutex // guards the fields below
	left   time.Duration
	since  time.Time // when it began to run; of no use while it is paused
	paused int       // pauses that have not ended
	ended  bool
	timer  *time.Timer
}

// Start starts a clock. Stop it.
func Start(left time.Duration, out func()) *Clock {
	c := &Clock{left: left, since: time.Now()}
	c.timer = time.AfterFunc(left, func() {
		c.mu.Lock()
		over := c.paused == 0 && !c.ended
		c.ended = c.ended || over
		if c.paused > 0 { // it fired just when a pause began
			c.left = 0
		}
		c.mu.Unlock()
		if over {
			out()
		}
	})
	return c
}

// Pause lets no time pass until resume is called, which is done once. Several pauses may overlap.
func (c *Clock) Pause() (resume func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused++; c.paused == 1 && !c.ended {
		c.timer.Stop()
		c.left = max(0, c.left-time.Since(c.since))
	}
	return sync.OnceFunc(c.resume)
}

func (c *Clock) resume() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.paused--; c.paused == 0 && !c.ended {
		c.since = time.Now()
		c.timer.Reset(c.left)
	}
}

// Stop ends the clock: the function is not called any more.
func (c *Clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	c.timer.Stop()
}
