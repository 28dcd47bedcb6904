package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// unmade is a filter of the settings for which there was no space at the start.
type unmade struct {
	spec  Spec
	cause error // of the last attempt; wraps ErrNoSpace
}

// putOff leaves a filter of the settings to MakeMissing, so that the others can be served.
func (e *Engine) putOff(spec Spec, cause error) {
	e.log.Error("a filter of the settings cannot be made; the others are served, and it is made when there is space", "filter", spec.Name, "err", cause)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.unmade[spec.Name] = unmade{spec, cause}
}

// MakeMissing makes the filters of the settings for which there was no space at the start. It
// tries again every interval until all are made or ctx ends, and logs what else stands in the way
// when that changes.
func (e *Engine) MakeMissing(ctx context.Context, interval time.Duration) {
	logged := map[string]string{} // by name
	for {
		e.mu.RLock()
		missing := maps.Clone(e.unmade)
		e.mu.RUnlock()
		if len(missing) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval):
		}
		for _, name := range slices.Sorted(maps.Keys(missing)) {
			_, _, err := e.Create(ctx, missing[name].spec)
			if err == nil || errors.Is(err, ErrNoSpace) || ctx.Err() != nil {
				delete(logged, name)
			} else if logged[name] != err.Error() {
				logged[name] = err.Error()
				e.log.Warn("a filter of the settings cannot be made", "filter", name, "err", err)
			}
		}
	}
}

// unmadeFor says why ref cannot be served yet; nil if it is not unmade. The caller holds mu.
func (e *Engine) unmadeFor(ref string) error {
	for name, u := range e.unmade {
		if name == ref || u.spec.ID != 0 && fmt.Sprint(u.spec.ID) == ref {
			return fmt.Errorf("filter %s: not made yet: %w", name, u.cause)
		}
	}
	return nil
}

// readyUnmade says which filters are not made; nil for none.
func (e *Engine) readyUnmade() error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if len(e.unmade) == 0 {
		return nil
	}
	return fmt.Errorf("not made yet: %s", strings.Join(slices.Sorted(maps.Keys(e.unmade)), ", "))
}
