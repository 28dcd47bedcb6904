// Package embedded keeps bit-maps on this machine: the bits in memory, and on disk a
// file of each bit-map and a journal of what the file lacks. docs/format.md has the
// files, set.go the argument why a crash loses nothing.
//
// It does not hash, and does not know items.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/journal"
)

const (
	flushEvery      = time.Second            // durability: interval
	checkpointEvery = 100 * time.Millisecond // how often the journals' sizes are looked at
	checkpointRetry = 30 * time.Second
)

// Options say where a store is and how it works.
type Options struct {
	Dir        string
	Durability string // always | interval | none
	// CheckpointBytes of a journal make a checkpoint due, a quarter of the bit-map if that
	// is more. Default 64 MiB.
	CheckpointBytes int64
	Log             *slog.Logger
	FS              durable.FS // zero: the real one
}

// Store implements engine.Store in a data directory that it owns alone.
type Store struct {
	opt  Options
	log  *slog.Logger
	sync journal.Sync
	lock *durable.Lock

	mu   sync.Mutex
	sets map[string]*set
	err  error // sticky

	failed chan struct{}
	stop   context.CancelFunc
	work   sync.WaitGroup
}

var _ engine.Store = (*Store)(nil)

// Open takes the data directory, made if missing. It returns a *durable.InUseError
// when another process has it. Load reads the filters.
func Open(opt Options) (*Store, error) {
	if opt.CheckpointBytes == 0 {
		opt.CheckpointBytes = 64 << 20
	}
	mode, err := parseDurability(opt.Durability)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(opt.Dir, filtersDir), 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	lock, err := durable.AcquireLock(filepath.Join(opt.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", opt.Dir, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		opt: opt, log: opt.Log, sync: mode, lock: lock,
		sets: map[string]*set{}, failed: make(chan struct{}), stop: stop,
	}
	s.work.Go(func() { s.every(ctx, flushEvery, s.flush) })
	s.work.Go(func() { s.every(ctx, checkpointEvery, s.checkpointDue) })
	return s, nil
}

func parseDurability(s string) (journal.Sync, error) {
	switch s {
	case "always":
		return journal.Always, nil
	case "interval":
		return journal.Interval, nil
	case "none":
		return journal.None, nil
	}
	return 0, fmt.Errorf("durability %q: want always, interval or none", s)
}

// Load implements engine.Store. Damage is an error that names the file and, on a
// hint: line, what to do.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	dirs, err := s.tidy()
	if err != nil {
		return nil, err
	}
	loaded := map[engine.Spec]engine.Set{}
	for _, dir := range dirs {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		set, found, err := s.load(dir)
		if err != nil {
			return nil, err
		}
		for other := range loaded {
			if other.ID == set.spec.ID || other.Name == set.spec.Name {
				return nil, fmt.Errorf("%s: id or name is also that of filter %d-%s\nhint: move one of the two folders away", dir, other.ID, other.Name)
			}
		}
		s.log.Info("filter loaded", "filter", set.spec.Name, "bytes", set.bits.Header().Bytes(), "replayed_keys", found.Keys,
			"torn_bytes", found.Torn, "took", time.Since(start).Round(time.Microsecond))
		loaded[set.spec] = set
	}
	return loaded, nil
}

// load reads one filter's folder: its description, its bit-map file, and the journal
// that follows it.
func (s *Store) load(dir string) (*set, journal.Found, error) {
	spec, err := readSpec(dir)
	if err != nil {
		return nil, journal.Found{}, damaged(err, dir)
	}
	bits, from, err := readBitmap(filepath.Join(dir, bitmapName))
	if err != nil {
		return nil, journal.Found{}, damaged(err, dir)
	}
	found, err := journal.Replay(journal.Reading{
		Dir: dir, FS: s.opt.FS, Generation: bits.Header().Generation, From: from, Apply: applyTo(bits),
	})
	if err != nil {
		return nil, found, damaged(errors.Join(err, bits.Close()), dir)
	}
	return s.start(spec, dir, bits, found.Next), found, nil
}

func applyTo(bits *bloom.Map) func([]bloom.Hash) {
	var fresh []bool
	return func(keys []bloom.Hash) {
		if len(fresh) < len(keys) {
			fresh = make([]bool, len(keys))
		}
		bits.Add(keys, fresh)
	}
}

// start begins to serve a set.
func (s *Store) start(spec engine.Spec, dir string, bits *bloom.Map, next uint64) *set {
	j := journal.Open(journal.Options{
		Dir: dir, FS: s.opt.FS, Sync: s.sync, Generation: bits.Header().Generation, Next: next, Log: s.log, Failed: s.fail,
	})
	bits.OnAdd(j.Append)
	set := &set{store: s, spec: spec, dir: dir, bits: bits, journal: j}
	s.mu.Lock()
	s.sets[spec.Name] = set
	s.mu.Unlock()
	return set
}

// Create implements engine.Store.
func (s *Store) Create(_ context.Context, spec engine.Spec, h bloom.Header) (engine.Set, error) {
	return s.create(spec, h, func(*bloom.Map) error { return nil })
}

// Drop implements engine.Store.
func (s *Store) Drop(_ context.Context, spec engine.Spec) error {
	s.mu.Lock()
	set := s.sets[spec.Name]
	delete(s.sets, spec.Name)
	s.mu.Unlock()
	if set == nil {
		return &engine.UnknownFilterError{Ref: spec.Name}
	}
	if err := s.removeDir(set.dir, set.close); err != nil {
		return fmt.Errorf("drop filter %s: %w", spec.Name, err)
	}
	return nil
}

// Ready implements engine.Store.
func (s *Store) Ready(context.Context) error {
	if err := s.sticky(); err != nil {
		return err
	}
	for _, set := range s.all() {
		if err := set.room(); err != nil {
			return fmt.Errorf("filter %s: %w", set.spec.Name, err)
		}
	}
	return nil
}

func (s *set) room() error {
	s.use.RLock()
	defer s.use.RUnlock()
	if s.gone {
		return nil
	}
	return translate(s.journal.Full())
}

// Failed implements engine.Store.
func (s *Store) Failed() <-chan struct{} { return s.failed }

// Changes implements engine.Store: nobody else changes this store.
func (s *Store) Changes() <-chan engine.Change { return nil }

func (s *Store) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return
	}
	s.err = fmt.Errorf("%w: %w", engine.ErrFailed, err)
	s.log.Error("store failed; nothing more is accepted", "err", err)
	close(s.failed)
}

func (s *Store) sticky() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

func (s *Store) all() []*set {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([]*set, 0, len(s.sets))
	for _, set := range s.sets {
		all = append(all, set)
	}
	return all
}

func (s *Store) every(ctx context.Context, interval time.Duration, work func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			work()
		}
	}
}

// flush syncs for durability interval; an error is sticky and told to fail.
func (s *Store) flush() {
	if s.sync != journal.Interval {
		return
	}
	for _, set := range s.all() {
		_ = set.journal.Flush()
	}
}

func (s *Store) checkpointDue() {
	for _, set := range s.all() {
		if !set.due() {
			continue
		}
		if err := set.checkpoint(); err != nil {
			s.log.Warn("checkpoint put off; the journal keeps everything meanwhile", "err", err)
		}
	}
}

// Close implements engine.Store.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	var errs []error
	for _, set := range s.all() {
		errs = append(errs, set.close())
	}
	return errors.Join(append(errs, s.lock.Release())...)
}
