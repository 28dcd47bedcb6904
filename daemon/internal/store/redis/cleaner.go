package redis

import (
	"context"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
)

// tombWait is how long the daemons may take to see that a filter was dropped. After that they use
// none of its keys. If it was cleared, those that are slower are waited for, as their callers are
// still to be answered.
const tombWait = 3 * members.PollEvery

// sweepLeasesEvery is how often reservations that ended long ago are discarded.
const sweepLeasesEvery = 10 * time.Second

// sighting is when a tombstone was first seen, by the clock of this machine, and the version of the
// registry then.
type sighting struct {
	at      time.Time
	version int64
}

// cleaner removes the keys that tombstones name, and then the tombstones; and what is no longer
// needed of reservations.
func (s *Store) cleaner(ctx context.Context) {
	since := map[string]sighting{}
	swept := time.Now()
	for range repeat.Every(ctx, members.PollEvery) {
		if _, err := s.state.Check(); err != nil {
			clear(since)
			continue
		}
		if time.Since(swept) >= sweepLeasesEvery {
			swept = time.Now()
			s.sweepLeases(ctx)
		}
		if err := s.cleanOnce(ctx, since, time.Now()); err != nil && ctx.Err() == nil {
			s.log.Warn("keys of a dropped filter are still in redis; they are retried", "err", err)
		}
	}
}

func (s *Store) sweepLeases(ctx context.Context) {
	for _, f := range s.all() {
		l, ok := f.(base.Leasing)
		if !ok {
			continue
		}
		if err := l.SweepLeases(ctx); err != nil && ctx.Err() == nil {
			s.log.Debug("sweep of reservations in redis", "filter", f.Base().Spec.Name, "err", err)
		}
	}
}

func (s *Store) cleanOnce(ctx context.Context, since map[string]sighting, now time.Time) error {
	tombs, err := s.servers.Admin.HGetAll(ctx, registry.TombstonesKey).Result()
	if err != nil {
		return err
	}
	for tomb := range since {
		if _, ok := tombs[tomb]; !ok {
			delete(since, tomb)
		}
	}
	if len(tombs) == 0 {
		return nil
	}
	version, err := s.registry.Version(ctx)
	if err != nil {
		return err
	}
	followed, err := s.members.Followed(ctx)
	if err != nil {
		return err
	}
	daemons := append(s.members.Alive(), s.members.Self)
	for tomb, value := range tombs {
		first, ok := since[tomb]
		dropped := registry.IsDropped(value)
		waited := now.Sub(first.at)
		switch {
		case !ok || !dropped && s.members.MayLive(value):
			since[tomb] = sighting{now, version}
			continue
		case waited < tombWait, waited < members.ResyncTimeout && len(behind(followed, daemons, first.version, waited)) > 0:
			continue
		case !dropped: // if its creator lives after all, it finds that it may not register
			delete(since, tomb)
			err = servers.Always(ctx, s.servers.Admin, "hset", registry.TombstonesKey, tomb, registry.Dropped).Err()
		default:
			err = s.registry.Clean(ctx, tomb, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
