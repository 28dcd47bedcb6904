package engine

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	// catchUpEvery is the least time from one question to a shared store, whether other daemons have
	// made a filter, to the next. All that ask in between share the next one, so that callers who
	// make up names cost the store no more than that.
	catchUpEvery = 20 * time.Millisecond
	// catchUpMost is how long such a question may take.
	catchUpMost = 5 * time.Second
)

// Find is Lookup for callers who are told if there is no such filter: before that is said, a store
// that others share is asked whether one of them has made it meanwhile. It also returns an error
// that wraps ErrUnavailable, if the store cannot be asked.
func (e *Engine) Find(ctx context.Context, ref string) (*Filter, error) {
	f, err := e.Lookup(ref)
	if err == nil {
		return f, nil
	}
	store, shared := e.store.(Shared)
	if unknown := (*UnknownFilterError)(nil); !errors.As(err, &unknown) || !shared || !e.following.Load() {
		return nil, err
	}
	if err := e.catching.up(ctx, store.CatchUp); err != nil {
		return nil, err
	}
	return e.Lookup(ref)
}

// catching has callers share the questions to a store: each waits for one that began after it came.
type catching struct {
	turn chan struct{} // is held by who asks
	last time.Time     // when the last one ended; with turn

	mu   sync.Mutex
	next *question // that has not begun; nil: nobody waits for one
}

type question struct {
	answered chan struct{}
	err      error // once it is
}

func newCatching() catching { return catching{turn: make(chan struct{}, 1)} }

func (c *catching) up(ctx context.Context, ask func(context.Context) error) error {
	c.mu.Lock()
	if c.next == nil {
		c.next = &question{answered: make(chan struct{})}
	}
	q := c.next
	c.mu.Unlock()
	select {
	case <-q.answered:
		return q.err
	case <-ctx.Done():
		return ctx.Err()
	case c.turn <- struct{}{}:
	}
	defer func() { <-c.turn }()
	select {
	case <-q.answered:
		return q.err
	default:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Until(c.last.Add(catchUpEvery))):
	}
	c.mu.Lock()
	c.next = nil // it is q: only who has the turn takes one away
	c.mu.Unlock()
	asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), catchUpMost) // others wait for it, too
	defer cancel()
	q.err = ask(asking)
	c.last = time.Now()
	close(q.answered)
	return q.err
}
