// Package redisstore keeps filters in Redis or Valkey, where several daemons share them.
// keys.go lists what is in Redis, set.go and timed.go say how a batch goes in each kind,
// syncstate.go and peers.go how data that Redis has lost is put back before anything is
// answered from it.
//
// It does not hash, knows no items, and needs no module in Redis.
package redisstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

const (
	defaultTimeout = 5 * time.Second
	sweepEvery     = 100 * time.Millisecond
)

// Config of a store.
type Config struct {
	Options
	Log *slog.Logger
	// DoubtIsNew gives items whose replies were lost as new when they are asked for again
	// here, though another daemon's caller may have got them too.
	DoubtIsNew bool
	// Fsync refuses servers that answer before they have synced.
	Fsync bool
	// Replicas is how many of them must have a batch before it is answered; 0: none. Not
	// for a cluster.
	Replicas int
	// Dir is where this daemon keeps what proves to the next one there that it is dead: see
	// lives.go. "": nowhere.
	Dir string

	newcomer time.Duration // 0: newcomerWait
}

// Store implements engine.Store.
type Store struct {
	opt     Config
	log     *slog.Logger
	client  redis.UniversalClient                                                 // batches travel here, to servers that are in sync
	admin   redis.UniversalClient                                                 // everything else
	restore func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error // may be nil
	sync    *syncState
	peers   *peers

	flight sync.RWMutex // read-held by batches, from before they look whether it is in sync

	// changing is held while the registry and the filters here are changed or compared
	// together: a filter that is dropped here while the registry is read would come back.
	changing sync.Mutex

	// stoppedFor are the servers for which the filters were stopped last; owned by resync.
	stoppedFor string

	mu   sync.Mutex
	sets map[string]filter
	bad  map[string]engine.Quarantined // by name
	// registryID is that of the registry in Redis with which the filters here agree.
	registryID string
	// unackedRead is the version of the unacknowledged items in Redis that was last read.
	unackedRead string

	highestID atomic.Int64 // that this daemon has seen in idsKey

	unpublished chan struct{} // the publisher has work
	early       chan struct{} // poll is not to wait for its next time

	// lives is the lock of Dir; nil: not held. Owned by Load, then poll, then Close.
	lives       *durable.Lock
	claimFailed bool // and it was said

	changes chan engine.Change
	stop    context.CancelFunc
	work    sync.WaitGroup

	reach reach
}

var _ engine.Store = (*Store)(nil)

// Open connects. It refuses a server that may evict keys. Load reads the filters.
func Open(ctx context.Context, c Config) (*Store, error) {
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.newcomer == 0 {
		c.newcomer = newcomerWait
	}
	s := &Store{
		opt: c, log: c.Log, sync: newSyncState(), sets: map[string]filter{}, bad: map[string]engine.Quarantined{},
		peers:   newPeers(selfName()),
		changes: make(chan engine.Change, 64), unpublished: make(chan struct{}, 1), early: make(chan struct{}, 1),
	}
	var err error
	if s.client, s.admin, err = dial(ctx, c.Options, s.sync.onConnect); err != nil {
		return nil, err
	}
	if _, cluster := s.client.(*redis.ClusterClient); cluster && c.Replicas > 0 {
		return nil, errors.Join(fmt.Errorf("redis.replicas %d: want 0: it is for one master with replicas, and these addrs are a cluster", c.Replicas), s.hangUp())
	}
	where := strings.Join(c.Addrs, ",")
	if _, err := s.runIDs(ctx); err != nil {
		return nil, errors.Join(explain(where, err), s.hangUp())
	}
	if err := s.admin.HExists(ctx, registryKey, formatField).Err(); err != nil {
		if strings.HasPrefix(err.Error(), "WRONGTYPE") {
			err = foreign(registryKey)
		}
		return nil, errors.Join(explain(where, err), s.hangUp())
	}
	s.warnSplit(ctx)
	return s, nil
}

// RestoreWith sets the function that ors into a bit-map what the archive has of it, after
// Redis has lost it. It is called before Load, if at all.
func (s *Store) RestoreWith(restore func(ctx context.Context, spec engine.Spec, bits engine.BitMap) error) {
	s.restore = restore
}

func (s *Store) hangUp() error { return errors.Join(s.client.Close(), s.admin.Close()) }

// selfName tells this daemon from all others, its own earlier starts included.
func selfName() string {
	host, _ := os.Hostname()
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails, says its documentation
	return fmt.Sprintf("%s:%d:%s", host, os.Getpid(), hex.EncodeToString(b[:]))
}

// Load implements engine.Store: it reads every filter into a mirror, and then waits until
// the other daemons, if there are any, call this Redis in sync.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	s.holdLives()
	justRead, err := s.runIDs(ctx)
	if err != nil {
		return nil, err
	}
	// Before what it is of, and before anybody hears of this daemon.
	version, err := s.version(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.noteFollowed(ctx, strconv.FormatInt(version, 10)); err != nil {
		return nil, err
	}
	registry, err := s.registry(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.beat(ctx); err != nil {
		return nil, err
	}
	if len(registry) == 0 {
		// A new Redis, or one that has just lost everything while others run.
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(s.opt.newcomer):
		}
		if err := s.beat(ctx); err != nil {
			return nil, err
		}
		if _, err := s.mendRegistry(ctx, nil); err != nil {
			return nil, err
		}
		if registry, err = s.registry(ctx); err != nil {
			return nil, err
		}
	}
	loaded := map[engine.Spec]engine.Set{}
	for name, text := range registry {
		f, lost, err := s.load(ctx, name, text)
		if asDamaged(err) {
			s.quarantine(name, text, err)
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
		loaded[f.base().spec] = f
	}
	if err := s.resync(ctx, justRead...); err != nil {
		return nil, err
	}
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
func (s *Store) load(ctx context.Context, name, text string) (_ filter, lost bool, err error) {
	start := time.Now()
	e, err := decodeEntry(name, text)
	if err != nil {
		return nil, false, err
	}
	f, err := s.newFilter(e)
	if err != nil {
		return nil, false, err
	}
	if lost, err = f.learn(ctx); err != nil {
		return nil, false, errors.Join(fmt.Errorf("filter %s: %w", name, err), closeFilter(f))
	}
	if lost {
		s.log.Warn("redis has lost a part of the filter", "filter", name)
	}
	s.log.Info("filter loaded", "filter", name, "kind", e.spec.Kind, "bytes", f.Stats().Bytes, "took", time.Since(start).Round(time.Millisecond))
	return f, lost, nil
}

// Drop implements engine.Store. The other daemons follow within a second.
func (s *Store) Drop(ctx context.Context, spec engine.Spec) error {
	if _, err := s.sync.check(); err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	s.mu.Lock()
	f := s.sets[spec.Name]
	delete(s.sets, spec.Name)
	s.mu.Unlock()
	if f == nil {
		return &engine.UnknownFilterError{Ref: spec.Name}
	}
	if err := closeFilter(f); err != nil {
		return err
	}
	if err := s.unregister(ctx, f.base().entry); err != nil {
		return f.base().trouble(ctx, err)
	}
	// Who makes it again gets another id.
	return f.base().trouble(ctx, s.admin.HDel(ctx, idsKey, spec.Name).Err())
}

// sweeper lets go of what has expired, here; Redis does so by itself.
func (s *Store) sweeper(ctx context.Context) {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, f := range s.all() {
			k := f.base()
			p, ok := f.(expiring)
			if !ok || k.enter() != nil { // dropped meanwhile
				continue
			}
			if err := p.sweep(); err != nil { // nothing is wrong with what is left
				s.log.Debug("sweep", "filter", k.spec.Name, "err", err)
			}
			k.use.RUnlock()
		}
	}
}

// Ready implements engine.Store.
func (s *Store) Ready(ctx context.Context) error {
	if _, err := s.sync.check(); err != nil {
		return err
	}
	// By the way that batches take: it may find that Redis was started anew.
	if err := s.client.HExists(ctx, registryKey, formatField).Err(); err != nil {
		return fmt.Errorf("%w: redis: %w", engine.ErrUnavailable, err)
	}
	return nil
}

// Failed implements engine.Store: what Redis does resyncs, so this store never fails for good.
func (s *Store) Failed() <-chan struct{} { return nil }

func (s *Store) all() []filter {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]filter, 0, len(s.sets))
	for _, f := range s.sets {
		all = append(all, f)
	}
	return all
}

// Close implements engine.Store: it signs off, so that nobody waits for this daemon.
func (s *Store) Close() error {
	if s.stop != nil {
		s.stop()
		s.work.Wait()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = s.publishAll(ctx) // Redis may be down
	_ = s.admin.HSet(ctx, membersKey, s.peers.self, goodbye+s.peers.heartbeat()).Err()
	_ = s.admin.HDel(ctx, followedKey, s.peers.self).Err()
	var errs []error
	for _, f := range s.all() {
		errs = append(errs, closeFilter(f))
	}
	errs = append(errs, s.hangUp())
	if s.lives != nil { // last: the name in its file is that of a dead daemon from now on
		errs = append(errs, s.lives.Release())
	}
	return errors.Join(errs...)
}
