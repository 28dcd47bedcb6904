package lifecycle

import (
	"log/slog"
	"os"
	"runtime/pprof"
	"sync"
	"time"
)

// StopGuard ends the process if a stop takes too long: a hanging disk blocks an fsync, and
// everything that waits for it, forever. Acknowledged requests do not depend on an orderly
// end. It is safe for concurrent use.
type StopGuard struct {
	limit time.Duration
	log   *slog.Logger
	exit  func(code int) // os.Exit, except in tests

	mu    sync.Mutex
	timer *time.Timer // nil: no stop is under way
	over  bool
}

// NewStopGuard makes a StopGuard that gives a stop this long.
func NewStopGuard(limit time.Duration, log *slog.Logger) *StopGuard {
	return &StopGuard{limit: limit, log: log, exit: os.Exit}
}

// Arm notes that a stop has begun; only the first call counts.
func (g *StopGuard) Arm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.timer == nil && !g.over {
		g.timer = time.AfterFunc(g.limit, g.fire)
	}
}

// Disarm notes that the stop has ended.
func (g *StopGuard) Disarm() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.over = true
	if g.timer != nil {
		g.timer.Stop()
	}
}

func (g *StopGuard) fire() {
	g.mu.Lock()
	over := g.over
	g.mu.Unlock()
	if over {
		return
	}
	g.log.Error("the stop hangs; the process ends without its orderly end. What was answered is kept as the settings say (durability); the goroutines that follow show what it waited for",
		"after", g.limit)
	_ = pprof.Lookup("goroutine").WriteTo(os.Stderr, 1)
	g.exit(1)
}
