package engine

import (
	"context"
	"errors"
)

// ErrStopping is returned for changes of filters that the daemon's stop has cut off.
var ErrStopping = errors.New("the daemon is stopping")

// underway is a running change of the filter with one name: it is made, restored or dropped. A
// restore may take minutes; other filters can be changed meanwhile.
type underway struct {
	id   int // of the future filter; 0: not known yet
	done chan struct{}
}

// begin waits until there is no other change of the filter with this name. The context that
// it returns ends with Stop; the caller calls end when the change is done.
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

// Stop cuts off running changes of filters, and refuses later ones: a restore may take
// minutes, and can be repeated. Batches go on.
func (e *Engine) Stop() { e.stop() }

// reserve reserves an id for the filter with this name, which is being changed. If another
// filter has the id, it returns that filter's name. The caller holds mu.
func (e *Engine) reserve(id int, name string) (owner string) {
	if owner = e.ownerOf(id, name); owner == "" && e.changing[name] != nil {
		e.changing[name].id = id
	}
	return owner
}
