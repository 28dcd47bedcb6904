package engine

import (
	"context"
	"errors"
)

// ErrStopping is returned for changes of filters that the daemon's end has cut off.
var ErrStopping = errors.New("the daemon is stopping")

// underway is a change of the filter of one name: it is made, restored or dropped. A
// restore may take minutes, in which other filters are changed as at any time.
type underway struct {
	id   int // that the filter is to have; 0: not known yet
	done chan struct{}
}

// begin waits until nobody else changes the filter of that name. The context that it
// returns ends with Stop; the caller calls end when the change is done.
func (e *Engine) begin(ctx context.Context, name string) (_ context.Context, end func(), err error) {
	for {
		e.mu.Lock()
		other := e.changing[name]
		if other == nil {
			break
		}
		e.mu.Unlock()
		select {
		case <-other.done:
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		case <-e.stopped.Done():
			return nil, nil, ErrStopping
		}
	}
	defer e.mu.Unlock()
	if e.stopped.Err() != nil {
		return nil, nil, ErrStopping
	}
	mine := &underway{done: make(chan struct{})}
	e.changing[name] = mine
	ctx, cancel := context.WithCancelCause(ctx)
	unhook := context.AfterFunc(e.stopped, func() { cancel(ErrStopping) })
	return ctx, func() {
		unhook()
		cancel(nil)
		e.mu.Lock()
		delete(e.changing, name)
		e.mu.Unlock()
		close(mine.done)
	}, nil
}

// Stop cuts off the changes of filters that are under way, and refuses later ones: a
// restore may take minutes, and can be made again. Batches go on.
func (e *Engine) Stop() { e.stop() }

// reserve keeps an id for the filter of that name, which is being changed, unless another
// filter has it; it then returns that one's name. The caller holds mu.
func (e *Engine) reserve(id int, name string) (owner string) {
	if owner = e.ownerOf(id, name); owner == "" && e.changing[name] != nil {
		e.changing[name].id = id
	}
	return owner
}
