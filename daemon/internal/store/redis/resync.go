package redis

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// retryResync is how often a failed resync is retried.
const retryResync = 300 * time.Millisecond

// resyncer puts back what Redis has lost, whenever it has lost something.
func (s *Store) resyncer(ctx context.Context) {
	told := ""
	retry := time.NewTicker(retryResync)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.state.Wake:
		case <-retry.C:
		}
		if _, err := s.state.Check(); err == nil {
			continue
		}
		err := s.resync(ctx)
		if ctx.Err() != nil {
			return
		}
		s.reach.Note(s.log, err)
		if err == nil {
			told = ""
			continue
		}
		s.state.Note(err)
		if text := err.Error(); !servers.Unreachable(err) && text != told { // it is tried several times a second
			told = text
			s.log.Warn("redis is not resynced yet", "err", err)
		}
	}
}

// resync puts back into Redis what this daemon knows, waits for the other daemons to do the same,
// and announces it. It may be repeated at any time: bits are only or-ed. Load calls it with the
// servers that it has just read everything from.
func (s *Store) resync(ctx context.Context, justRead ...string) error {
	start := time.Now()
	epoch := s.state.Epoch.Load()
	ids, err := s.servers.RunIDs(ctx)
	if err != nil {
		return err
	}
	inc, err := s.barrier.Incarnation(ctx, s.state.Stale(ids))
	if err != nil {
		return err
	}
	defer s.beatMeanwhile(ctx)()
	lost, err := s.resyncTogether(ctx, ids, inc, slices.Equal(ids, justRead))
	if errors.Is(err, insync.ErrLostAgain) {
		s.state.LostAgain(inc) // all daemons begin anew
	}
	if err != nil {
		return err
	}
	if !s.state.Validate(epoch, ids, inc) {
		return insync.ErrChanged
	}
	s.log.Info("redis is in sync", "servers", len(ids), "lost_data", lost, "filters", len(s.all()), "took", time.Since(start).Round(time.Millisecond))
	return nil
}

// resyncTogether takes the steps of the resync of one incident. It returns insync.ErrLostAgain if
// servers have lost data meanwhile.
func (s *Store) resyncTogether(ctx context.Context, ids []string, inc string, justRead bool) (lost bool, err error) {
	// Batches under way end before this daemon says that it has stopped.
	s.state.Flight.Lock()
	//lint:ignore SA2001 nothing is done under it: later batches see that it is not in sync
	s.state.Flight.Unlock()
	started := s.state.AnyNew(ids)
	// Once for each start of a server: when this is retried, the other daemons may already have
	// put back what they know.
	servers := strings.Join(ids, " ")
	first := started && s.state.WasSynced() && s.stoppedFor != servers
	bad := map[base.Filter]bool{} // those in quarantine are tried again
	if err := s.each(bad, func(f base.Filter) error { return f.Stop(ctx, first) }); err != nil {
		return false, err
	}
	s.stoppedFor = servers
	witnesses, err := s.barrier.LeaveMarkers(ctx)
	if err != nil {
		return false, err
	}
	in := insync.Incident(ids, inc)
	if err := s.barrier.Together(ctx, insync.Stopped, in); err != nil {
		return false, err
	}
	abandoned, err := s.forgetIfAbandoned(ctx)
	if err != nil {
		return false, err
	}
	if err := s.reconcile(ctx, started); err != nil {
		return false, err
	}
	if !justRead {
		if lost, err = s.resyncAll(ctx, bad); err != nil {
			return lost, err
		}
	}
	if lost && s.state.IsCurrent(inc) {
		s.state.Invalidate(insync.ErrLost) // nobody has told the others yet
		return lost, insync.ErrLost
	}
	if lost && abandoned { // the others had put back everything
		return lost, insync.ErrLostAgain
	}
	if err := s.tellBad(ctx, in, bad); err != nil {
		return lost, err
	}
	if err := s.barrier.Together(ctx, insync.Resynced, in); err != nil {
		return lost, err
	}
	if err := s.hearBad(ctx, in, bad); err != nil {
		return lost, err
	}
	// Learn what the others have put back before anything is answered.
	err = s.each(bad, func(f base.Filter) error {
		if m, ok := f.(base.Mirrored); ok {
			return m.Reload(ctx)
		}
		return nil
	})
	if err != nil {
		return lost, err
	}
	if err := s.followUnacked(ctx, bad, true); err != nil {
		return lost, err
	}
	if err := witnesses.Remove(ctx); err != nil {
		return lost, err
	}
	s.release(bad)
	return lost, nil
}

// beatMeanwhile writes heartbeats until the function that it returns is called: putting back a
// filter may take longer than the other daemons wait for a silent one, and they would go on
// without what only this one knows. The barrier bounds how long they wait in all.
func (s *Store) beatMeanwhile(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var beating sync.WaitGroup
	beating.Go(func() {
		for range repeat.Every(ctx, members.PollEvery) {
			_ = s.members.Beat(ctx) // the resync itself finds out that Redis is away
		}
	})
	return func() { cancel(); beating.Wait() }
}

// resyncAll ors every mirror into Redis, and the archive's bits if a stripe was gone.
func (s *Store) resyncAll(ctx context.Context, bad map[base.Filter]bool) (lost bool, err error) {
	err = s.each(bad, func(f base.Filter) error {
		spec := f.Base().Spec
		gone, err := f.Resync(ctx)
		if err != nil {
			return err
		}
		if bits, ok := f.(engine.BitMap); ok && gone && s.restore != nil {
			if err := s.restore(ctx, spec, unserved{bits}); err != nil {
				s.log.Warn("filter was resynced from this daemon's memory only, not from the archive", "filter", spec.Name, "err", err)
			}
		}
		if m, ok := f.(base.Mirroring); ok && gone && m.Mirror().Partial {
			s.log.Warn("redis has lost a filter that daemons do not mirror whole; what neither the archive nor a mirror has is new again", "filter", spec.Name)
		}
		lost = lost || gone
		return nil
	})
	return lost, err
}

// restoredPerSecond is how many bytes of a bit-map a daemon restores from the archive per second,
// at least.
const restoredPerSecond = 25 << 20

// restoreTimeout returns how long it may take to put back what no mirror has: daemons that went on
// before would call it new.
func (s *Store) restoreTimeout() (limit time.Duration) {
	if s.restore == nil {
		return 0
	}
	for _, f := range s.all() {
		if m, ok := f.(base.Mirroring); ok && m.Mirror().Partial {
			limit += time.Duration(f.Stats().Bytes/restoredPerSecond) * time.Second
		}
	}
	return limit
}

// warnPartial warns of what bounded mirrors mean without an archive.
func (s *Store) warnPartial() {
	for _, f := range s.all() {
		if m, ok := f.(base.Mirroring); ok && m.Mirror().Partial && s.restore == nil && f.Stats().Bytes > m.Mirror().Bytes {
			s.log.Warn("the filter is larger than its mirror, and there is no archive: if Redis loses its data, all but the latest items are new again",
				"filter", f.Base().Spec.Name, "bytes", f.Stats().Bytes, "mirror_bytes", m.Mirror().Bytes,
				"hint", "set mongodb.uri and writeback.interval, and give Redis appendonly yes")
		}
	}
}

// reconcile makes the registry and the filters here agree. A filter that the registry lacks was
// dropped by another daemon, or it was lost, if a server was restarted or the registry is not the
// one from before.
func (s *Store) reconcile(ctx context.Context, started bool) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	have, id, err := s.registry.Read(ctx)
	if err != nil {
		return err
	}
	lost := started || have[registry.FormatField] == "" || id == "" || s.registry.Replaced(id)
	missing := []any{}
	for _, f := range s.all() {
		mine := f.Base().Entry
		text, there := have[mine.Spec.Name]
		switch {
		case there:
			e, err := registry.Decode(mine.Spec.Name, text)
			switch {
			case err != nil || e == mine:
			case lost && e.Spec == mine.Spec && e.Gen < mine.Gen && e.Born < mine.Born:
				// Redis has gone back to before the filter was cleared.
				if err := s.supersede(ctx, e, mine); err != nil {
					return err
				}
			default: // cleared or re-created; what this one has is of no use
				if err := s.serveEntry(ctx, mine.Spec.Name, text, func() bool { return true }); err != nil && !errors.Is(err, insync.ErrLost) {
					return err
				}
			}
		case lost:
			if text, err = mine.Encode(); err != nil {
				return err
			}
			missing = append(missing, mine.Spec.Name, text)
		default:
			s.forget(f)
		}
	}
	if id, err = s.registry.Mend(ctx, missing); err != nil {
		return err
	}
	s.registry.Agreed(id)
	return nil
}

// forgetIfAbandoned discards what this daemon has not published, if this daemon was abandoned.
// With redis.in_doubt: new it keeps that, and prefers that an item is new twice.
// It reports whether it was.
func (s *Store) forgetIfAbandoned(ctx context.Context) (bool, error) {
	if abandoned, err := s.barrier.Abandoned(ctx); err != nil || !abandoned {
		return false, err
	}
	for _, f := range s.all() {
		if w, ok := f.(base.Forgetful); ok {
			w.InvalidateForgotten()
		}
	}
	if !s.opt.UnackedIsNew {
		for _, f := range s.all() {
			u, ok := f.(base.Unacknowledging)
			if !ok {
				continue
			}
			if n := u.ForgetUnacked(); n > 0 {
				s.log.Warn("items that no caller got an answer for stay seen: other daemons went on without this one, and may have called them new",
					"filter", f.Base().Spec.Name, "items", n)
			}
		}
	}
	return true, s.barrier.Returned(ctx)
}
