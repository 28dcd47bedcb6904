package engine

import "context"

// Follow takes in what other daemons change in a shared store, until ctx ends.
func (e *Engine) Follow(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case change := <-e.store.Changes():
			e.take(change)
		}
	}
}

func (e *Engine) take(change Change) {
	if change.Set != nil {
		e.insert(change.Spec, change.Set)
		e.log.Info("filter made by another daemon", "filter", change.Spec.Name, "id", change.Spec.ID)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if f := e.name[change.Spec.Name]; f != nil && f.Set == change.Gone {
		delete(e.name, f.Name)
		delete(e.id, f.ID)
		e.log.Info("filter dropped by another daemon", "filter", f.Name, "id", f.ID)
	}
}
