package engine

import (
	"context"
	"fmt"
	"sync"
)

// Feed passes changes from a shared store to the engine, in the order in which they were sent. It keeps
// those that the engine has not accepted yet, however many there are: a store sends each once, and
// one that is lost would leave the engine with a filter that is gone, or without one that is there.
// It is safe for concurrent use.
type Feed struct {
	out  chan Change
	done chan struct{}
	end  sync.Once
	work sync.WaitGroup

	mu      sync.Mutex
	waiting []Change
	running bool
}

// NewFeed makes a Feed, which must be closed.
func NewFeed() *Feed { return &Feed{out: make(chan Change), done: make(chan struct{})} }

// Changes is where the engine receives.
func (f *Feed) Changes() <-chan Change { return f.out }

// Send returns at once.
func (f *Feed) Send(c Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, c)
	if !f.running {
		f.running = true
		f.work.Go(f.pass)
	}
}

// Await returns when the engine has taken all that was sent before.
func (f *Feed) Await(ctx context.Context) error {
	taken := make(chan struct{})
	f.Send(Change{Taken: taken})
	select {
	case <-taken:
		return nil
	case <-f.done:
		return fmt.Errorf("%w: it is being closed", ErrUnavailable)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnavailable, ctx.Err())
	}
}

// pass passes on what is waiting.
func (f *Feed) pass() {
	for {
		f.mu.Lock()
		if len(f.waiting) == 0 {
			f.running, f.waiting = false, nil
			f.mu.Unlock()
			return
		}
		next := f.waiting[0]
		f.waiting = f.waiting[1:]
		f.mu.Unlock()
		select {
		case f.out <- next:
		case <-f.done:
			return
		}
	}
}

// Close drops what is waiting, and what is sent later.
func (f *Feed) Close() {
	f.end.Do(func() { close(f.done) })
	f.work.Wait()
}
