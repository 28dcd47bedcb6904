package engine

import "context"

// Follow applies the changes that other daemons make in a shared store, until ctx ends.
func (e *Engine) Follow(ctx context.Context) {
	e.following.Store(true)
	defer e.following.Store(false)
	for {
		select {
		case <-ctx.Done():
			return
		case change := <-e.store.Changes():
			e.apply(change)
		}
	}
}

func (e *Engine) apply(change Change) {
	switch {
	case change.Taken != nil:
		close(change.Taken)
		return
	case change.Bad != nil:
		e.confine(*change.Bad)
		e.mu.Lock()
		if have := e.name[change.Spec.Name]; have != nil && have.Set == change.Gone {
			e.remove(have)
		}
		e.mu.Unlock()
		return
	case change.Mended != nil:
		e.release(*change.Mended)
		return
	case Ended(change.Set):
		return // whoever ended it tells what has taken its place, if anything has
	}
	e.mu.RLock()
	have := e.name[change.Spec.Name]
	e.mu.RUnlock()
	was := have != nil && (have.Set == change.Gone || Ended(have.Set))
	switch {
	case change.Set != nil && was:
		f := e.replace(have, change.Spec, change.Set)
		if f.life == have.life {
			e.log.Info("filter cleared by another daemon", "filter", f.Name, "id", f.ID, "generation", f.Stats().Generation)
		} else {
			e.log.Info("filter dropped and made again by another daemon", "filter", f.Name, "id", f.ID)
		}
	case change.Set != nil && have != nil && have.Set == change.Set: // already known
	case change.Set != nil:
		e.insert(change.Spec, change.Set)
		e.log.Info("filter made by another daemon", "filter", change.Spec.Name, "id", change.Spec.ID)
	case was:
		e.mu.Lock()
		e.remove(have)
		e.mu.Unlock()
		e.log.Info("filter dropped by another daemon", "filter", have.Name, "id", have.ID)
	}
}
