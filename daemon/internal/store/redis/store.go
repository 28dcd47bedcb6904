// Package redis keeps filters in Redis or Valkey, where several daemons share them: it makes
// and follows filters, and puts back what Redis has lost before anything is answered from it.
// doc.go lists what is in Redis. How a batch goes is in the packages bitmap, timed and exact, who
// holds items in leases, when servers are in sync in insync.
//
// It does not hash, knows no items, and needs no module in Redis.
package redis

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/base"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/budget"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/insync"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/members"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/registry"
	"github.com/cr-clawer/urifilter/daemon/internal/store/redis/servers"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

const (
	sweepEvery = 100 * time.Millisecond
	// newcomerWait lets running daemons leave heartbeats in an empty Redis before a daemon that
	// has just started, and knows of nobody, takes it for a new one.
	newcomerWait = 1500 * time.Millisecond
)

// Options say which Redis, and how to log in. They are those of the settings.
type Options = servers.Options

// Config of a store.
type Config struct {
	Options
	Log *slog.Logger
	// UnackedIsNew gives items whose replies were lost as new when they are asked for again
	// here, though another daemon's caller may have got them too.
	UnackedIsNew bool
	// MirrorBytes bounds the mirrors of all filters together: redis.mirror_bytes. 0: bit-maps are
	// mirrored whole.
	MirrorBytes uint64
	// ExactMirrorBytes bounds that of an exact filter, 0: with MirrorBytes only.
	ExactMirrorBytes uint64
	// Dir is where this daemon keeps what proves to the next one there that it is dead. "":
	// nowhere.
	Dir string

	newcomer time.Duration // 0: newcomerWait
	peerDead time.Duration // 0: members.PeerDead
}

// Store implements engine.Store.
type Store struct {
	opt      Config
	log      *slog.Logger
	servers  *servers.Servers
	restore  func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error // may be nil
	state    *insync.State
	barrier  *insync.Barrier
	members  *members.Members
	registry *registry.Registry
	link     *base.Link

	// changing is held while the registry and the filters here are changed or compared
	// together: a filter that is dropped here while the registry is read would come back.
	changing shared.Lock

	// stoppedFor are the servers for which the filters were stopped last; owned by resync.
	stoppedFor string

	mu   sync.Mutex
	sets map[string]base.Filter
	// unackedRead is the version of the unacknowledged items in Redis that was last read.
	unackedRead string

	unpublished chan struct{} // the publisher has work
	early       chan struct{} // poll is not to wait for its next time

	feed *engine.Feed
	stop context.CancelFunc
	work sync.WaitGroup

	reach servers.Reach
}

var _ engine.Store = (*Store)(nil)

// Open connects. It refuses a server that may evict keys. Load reads the filters.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.newcomer == 0 {
		c.newcomer = newcomerWait
	}
	if c.peerDead == 0 {
		c.peerDead = members.PeerDead
	}
	s := &Store{
		opt: c, log: c.Log, changing: shared.NewLock(), state: insync.NewState(), sets: map[string]base.Filter{},
		feed: engine.NewFeed(), unpublished: make(chan struct{}, 1), early: make(chan struct{}, 1),
	}
	var err error
	if s.servers, err = servers.Dial(ctx, c.Options, s.state.OnConnect); err != nil {
		return nil, err
	}
	s.members = members.New(s.servers.Admin, s.log, c.Dir, c.peerDead)
	s.barrier = insync.NewBarrier(s.state, s.servers, s.members, s.log)
	s.barrier.Longer = s.restoreTimeout
	s.registry = registry.New(s.servers, s.members.Self, s.log)
	s.link = &base.Link{
		Servers: s.servers, Members: s.members, State: s.state, Barrier: s.barrier, Registry: s.registry, Log: s.log,
		UnackedIsNew: c.UnackedIsNew, Mirrors: budget.New(c.MirrorBytes, c.ExactMirrorBytes), PollSoon: func() { signal(s.early) }, Publish: func() { signal(s.unpublished) },
	}
	if _, err := s.servers.RunIDs(ctx); err != nil {
		return nil, errors.Join(s.servers.Explain(err), s.servers.Close())
	}
	if err := s.registry.Look(ctx); err != nil {
		return nil, errors.Join(s.servers.Explain(err), s.servers.Close())
	}
	s.servers.WarnSplit(ctx, s.log)
	return s, nil
}

// signal wakes the goroutine that waits for c, if it is not awake already.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// RestoreWith sets the function that ors into a bit-map what the archive has of it, after
// Redis has lost it. It is called before Load, if at all.
func (s *Store) RestoreWith(restore func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error) {
	s.restore = restore
}

// Load implements engine.Store: it reads every filter into a mirror, and then waits until
// the other daemons, if there are any, call this Redis in sync.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	s.members.HoldLives()
	justRead, err := s.servers.RunIDs(ctx)
	if err != nil {
		return nil, err
	}
	// Before what it is of, and before anybody hears of this daemon.
	version, err := s.registry.Version(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.members.NoteFollowed(ctx, version); err != nil {
		return nil, err
	}
	entries, err := s.registry.Entries(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.members.Beat(ctx); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		// A new Redis, or one that has just lost everything while others run.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.opt.newcomer):
		}
		if err := s.members.Beat(ctx); err != nil {
			return nil, err
		}
		if _, err := s.registry.Mend(ctx, nil); err != nil {
			return nil, err
		}
		if entries, err = s.registry.Entries(ctx); err != nil {
			return nil, err
		}
	}
	loaded := map[engine.Spec]engine.Set{}
	for name, text := range entries {
		f, lost, err := s.load(ctx, name, text)
		if shared.IsDamaged(err) {
			s.registry.Confine(name, text, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if lost {
			justRead = nil
		}
		if f, err = s.adopt(f); err != nil {
			return nil, err
		}
		loaded[f.Base().Spec] = f
	}
	for err := s.resync(ctx, justRead...); err != nil; err = s.resync(ctx) {
		if !errors.Is(err, insync.ErrLostAgain) && !errors.Is(err, insync.ErrChanged) {
			return nil, err
		}
	}
	s.warnPartial()
	run, stop := context.WithCancel(context.Background())
	s.stop = stop
	s.work.Go(func() { s.resyncer(run) })
	s.work.Go(func() { s.poll(run) })
	s.work.Go(func() { s.counter(run) })
	s.work.Go(func() { s.sweeper(run) })
	s.work.Go(func() { s.cleaner(run) })
	s.work.Go(func() { s.publisher(run) })
	return loaded, nil
}

// load reads a filter of the registry.
func (s *Store) load(ctx context.Context, name, text string) (_ base.Filter, lost bool, err error) {
	start := time.Now()
	e, err := registry.Decode(name, text)
	if err != nil {
		return nil, false, err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return nil, false, err
	}
	if lost, err = f.Load(ctx); err != nil {
		return nil, false, errors.Join(fmt.Errorf("filter %s: %w", name, damage(e, err)), base.Close(f))
	}
	if lost {
		s.log.Warn("redis has lost a part of the filter", "filter", name)
	}
	s.log.Info("filter loaded", "filter", name, "kind", e.Spec.Kind, "bytes", f.Stats().Bytes, "took", time.Since(start).Round(time.Millisecond))
	return f, lost, nil
}

// Drop implements engine.Store. The other daemons follow within a second.
func (s *Store) Drop(ctx context.Context, spec engine.Spec) error {
	if _, err := s.state.Check(); err != nil {
		return err
	}
	version, err := s.unregister(ctx, spec)
	if err != nil {
		return err
	}
	if err := s.awaitFollowers(ctx, version); err != nil {
		s.log.Warn("a filter is dropped; other daemons that share this redis may not know it yet", "filter", spec.Name, "err", err)
	}
	return nil
}

// unregister ends a filter, and returns the version from which daemons know it. After an error the
// filter goes on here; if Redis has dropped it, poll ends it, and tells the engine.
func (s *Store) unregister(ctx context.Context, spec engine.Spec) (version int64, err error) {
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	f := s.sets[spec.Name]
	s.mu.Unlock()
	if f == nil {
		return 0, &engine.UnknownFilterError{Ref: spec.Name}
	}
	// First, so that who makes it again gets another id even if this daemon ends before the next step.
	if err = s.registry.ForgetID(ctx, spec.Name); err == nil {
		version, err = s.registry.Unregister(ctx, spec)
	}
	if err != nil {
		signal(s.early)
		return 0, f.Base().EngineError(ctx, err)
	}
	if err := s.discard(f); err != nil {
		s.log.Warn("mirror of a dropped filter", "filter", spec.Name, "err", err)
	}
	return version, nil
}

// sweeper lets go of what has expired, here; Redis does so by itself. It also gives mirrors the
// size that they are to have.
func (s *Store) sweeper(ctx context.Context) {
	for range repeat.Every(ctx, sweepEvery) {
		for _, f := range s.all() {
			k := f.Base()
			p, ok := f.(base.Sweeping)
			if !ok || k.Enter() != nil { // dropped meanwhile
				continue
			}
			if err := p.Sweep(); err != nil { // nothing is wrong with what is left
				s.log.Debug("sweep", "filter", k.Spec.Name, "err", err)
			}
			k.Use.RUnlock()
		}
	}
}

// Ready implements engine.Store.
func (s *Store) Ready(ctx context.Context) error {
	if _, err := s.state.Check(); err != nil {
		return err
	}
	// By the way that batches take: it may find that Redis has restarted.
	if err := s.servers.Batches.HExists(ctx, registry.Key, registry.FormatField).Err(); err != nil {
		return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	return nil
}

// Failed implements engine.Store: what Redis does resyncs, so this store never fails for good.
func (s *Store) Failed() <-chan struct{} { return nil }

func (s *Store) all() []base.Filter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.sets), func(f, g base.Filter) int { return f.Base().Spec.ID - g.Base().Spec.ID })
}

// Close implements engine.Store: it signs off, so that nobody waits for this daemon.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
	s.feed.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.publishAll(ctx) // Redis may be down
	s.members.SignOff(ctx)
	var errs []error
	for _, f := range s.all() {
		errs = append(errs, base.Close(f))
	}
	errs = append(errs, s.servers.Close())
	errs = append(errs, s.members.Close()) // last: it is dead from now on
	return errors.Join(errs...)
}

// The engine reaches the registry through the store.

var (
	_ engine.Numbers     = (*Store)(nil)
	_ engine.Quarantiner = (*Store)(nil)
)

// TakeID implements engine.Numbers. A Redis that has lost its data continues counting from what
// this daemon knows.
func (s *Store) TakeID(ctx context.Context, name string, least int) (int, error) {
	return s.registry.TakeID(ctx, name, least)
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(ctx context.Context, id int) error { return s.registry.NoteID(ctx, id) }

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined { return s.registry.Bad.Quarantined() }

// PutAway implements engine.Quarantiner: the entry is moved out of the registry. Its keys, if
// any, stay.
func (s *Store) PutAway(ctx context.Context, q engine.Quarantined) (to string, err error) {
	if _, err := s.state.Check(); err != nil {
		return "", err
	}
	return s.registry.PutAway(ctx, q)
}
