package mysql

import (
	"context"
	"errors"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

const (
	// pollEvery is how often the registry and the server's settings are checked.
	pollEvery = time.Second
	// pollTimeout bounds a check.
	pollTimeout = 30 * time.Second
	// countEvery is how often items are counted.
	countEvery = time.Minute
)

// pollSoon makes poll check at once.
func (s *Store) pollSoon() {
	select {
	case s.early <- struct{}{}:
	default:
	}
}

// poll checks the server and the registry, until the store is closed.
func (s *Store) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	counted, due := time.Now(), []*Set(nil)
	said := ""
	for {
		select {
		case <-s.run.Done():
			return
		case <-tick.C:
		case <-s.early:
		}
		ctx, cancel := context.WithTimeout(s.run, pollTimeout)
		err := s.demand(ctx, s.admin)
		s.note(err)
		if err == nil {
			if err = errors.Join(s.follow(ctx), s.noteReserving(ctx)); err == nil {
				said = ""
			} else if text := err.Error(); text != said && s.run.Err() == nil {
				said = text
				s.log.Warn("changes of other daemons in mysql cannot be read", "err", err)
			}
		}
		if err == nil && s.untidy.Swap(false) {
			if err = s.tidy(ctx); err != nil {
				s.untidy.Store(true)
			}
		}
		cancel()
		if len(due) == 0 && time.Since(counted) >= countEvery {
			due, counted = s.all(), time.Now()
		}
		if err == nil && len(due) > 0 { // one at a time: changes of other daemons do not wait for all
			err = due[0].recount(s.run)
			due = due[1:]
		}
		if err != nil && s.run.Err() == nil {
			s.log.Debug("look at mysql", "err", err)
		}
	}
}

// note keeps the result of a check of the server, and logs when it changes.
func (s *Store) note(err error) {
	if s.run.Err() != nil {
		return
	}
	var fault error
	if errors.As(err, new(*demandError)) {
		fault, err = s.opt.explain(err), nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case fault != nil && s.fault == nil:
		s.log.Error("mysql does not meet the requirements; calls for its filters are answered 503 until it does", "err", fault)
	case fault == nil && err == nil && s.fault != nil:
		s.log.Info("mysql meets the requirements again")
	}
	switch {
	case err != nil && s.away == nil:
		s.log.Warn("mysql cannot be reached; calls for its filters are answered 503 until it can", "err", s.opt.explain(err))
	case err == nil && s.away != nil:
		s.log.Info("mysql can be reached again")
	}
	if s.away = err; err == nil {
		s.fault = fault
	}
}

// follow compares the registry with this daemon's filters, and tells the engine what other
// daemons have changed.
func (s *Store) follow(ctx context.Context) error {
	if err := s.changing.LockUntil(ctx); err != nil {
		return err
	}
	defer s.changing.Unlock()
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return err
	}
	there := map[string]entry{}
	for _, e := range entries {
		there[e.spec.Name] = e
	}
	for _, set := range s.all() {
		e, found := there[set.spec.Name]
		switch {
		case !found:
			s.end(set)
			s.feed.Send(engine.Change{Spec: set.spec, Gone: set})
		case e == set.entry, e.unread != "":
			delete(there, set.spec.Name)
		}
	}
	var errs []error
	s.followQuarantine(there)
	for _, e := range there {
		set, err := s.load(ctx, e)
		if shared.IsDamaged(err) {
			errs = append(errs, s.confine(ctx, e, err))
			continue
		}
		if err != nil {
			errs = append(errs, err) // perhaps dropped at this moment
			continue
		}
		change := engine.Change{Spec: e.spec, Set: set}
		if was := s.find(e.spec.Name); was != nil {
			change.Gone = was
			s.untidy.Store(true) // its table may be left
		}
		s.bad.Follow(s.feed, func(q engine.Quarantined) bool { return q.Name != e.spec.Name })
		s.adopt(set)
		s.feed.Send(change)
	}
	return errors.Join(errs...)
}
