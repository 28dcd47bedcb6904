// Package embedded keeps filters on this machine: what they remember is in memory, and on disk
// each has a file and a journal of what the file lacks. docs/format.md describes the files,
// diskfilter.go says why a crash loses nothing; what differs between kinds is in package kinds.
//
// It does not hash, and does not know items.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kinds"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/timing"
	"github.com/cr-clawer/urifilter/daemon/internal/program/repeat"
	"github.com/cr-clawer/urifilter/daemon/internal/store/embedded/journal"
)

const (
	flushEvery      = time.Second            // durability: interval
	checkpointEvery = 100 * time.Millisecond // how often the journals' sizes are checked
	// checkpointRetry is how long after a checkpoint that failed the next one is tried. It doubles each
	// time: a file that does not fit takes what space is left, until it is removed.
	checkpointRetry    = 30 * time.Second
	maxCheckpointRetry = 16 * checkpointRetry
	sweepEvery         = 100 * time.Millisecond // how often a part of the expired items is released
)

// Options say where a store is and how it works.
type Options struct {
	Dir        string
	Durability string // always | interval | none
	// CheckpointBytes is the size of a journal that makes a checkpoint due, or a quarter of
	// the bit-map if that is more. Default 64 MiB.
	CheckpointBytes int64
	// SegmentBytes is the size of the first file of a journal; the following ones are larger.
	// Default 1 MiB.
	SegmentBytes int64
	Log          *slog.Logger
	FS           disk.FS      // zero: the real one
	Clock        timing.Clock // zero: the machine's
}

// Store implements engine.Store in a data directory that it owns alone.
type Store struct {
	opt  Options
	log  *slog.Logger
	sync journal.Sync
	lock *disk.Lock
	turn *disk.Lock // of the daemon; nil: the process is a command

	mu   sync.Mutex
	sets map[string]*diskFilter
	// links has the locks of filters whose folders are links, by folder.
	links map[string]*disk.Lock
	bad   []engine.Quarantined
	err   error // sticky

	metrics metrics

	numbering sync.Mutex // guards the file of numbers.go

	drops  atomic.Int64 // for names
	failed chan struct{}
	stop   context.CancelFunc
	work   sync.WaitGroup
}

var _ engine.Store = (*Store)(nil)

// Open locks the data directory, which it creates if missing. It returns a
// *disk.InUseError if another process has it. Load reads the filters.
func Open(opt Options) (*Store, error) { return open(opt, disk.AcquireLock) }

// OpenDaemon is Open for a process that has the directory until somebody stops it. Another one of these
// is refused, while any other process, such as a command, ends by itself: it waits for that one, until ctx
// ends. If it waits, it calls held first, which says who has the directory, and held(nil) afterwards.
func OpenDaemon(ctx context.Context, opt Options, held func(error)) (*Store, error) {
	var turn *disk.Lock
	s, err := open(opt, func(path string) (_ *disk.Lock, err error) {
		if turn, err = disk.AcquireLock(filepath.Join(opt.Dir, daemonLockName)); err != nil {
			return nil, err
		}
		waits := false
		lock, err := disk.AwaitLock(ctx, path, func(e *disk.InUseError) {
			waits = true
			held(inDirectory(opt.Dir, e))
		})
		if waits && err == nil {
			held(nil)
		}
		return lock, err
	})
	if err == nil {
		s.turn = turn
	} else if turn != nil {
		err = errors.Join(err, turn.Release())
	}
	return s, err
}

func open(opt Options, acquire func(path string) (*disk.Lock, error)) (*Store, error) {
	if opt.CheckpointBytes == 0 {
		opt.CheckpointBytes = 64 << 20
	}
	if opt.Clock.Wall == nil {
		opt.Clock = timing.SystemClock()
	}
	mode, err := parseDurability(opt.Durability)
	if err != nil {
		return nil, err
	}
	disk.KeepReserve()
	for _, dir := range []string{opt.Dir, filepath.Join(opt.Dir, filtersDir)} {
		if err := opt.FS.MkdirAll("data-dir", dir); err != nil {
			return nil, fmt.Errorf("data directory: %w", err)
		}
	}
	lock, err := acquire(filepath.Join(opt.Dir, lockName))
	if err != nil {
		return nil, inDirectory(opt.Dir, err)
	}
	if err := keepReserve(opt.FS, opt.Dir); err != nil {
		opt.Log.Warn("no space is kept in reserve; if the disk gets full, a filter may not be cleared", "err", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	s := &Store{
		opt: opt, log: opt.Log, sync: mode, lock: lock,
		sets: map[string]*diskFilter{}, links: map[string]*disk.Lock{}, failed: make(chan struct{}), stop: stop, metrics: newMetrics(),
	}
	s.work.Go(func() { every(ctx, flushEvery, s.flush) })
	s.work.Go(func() { every(ctx, checkpointEvery, s.checkpointDue) })
	s.work.Go(func() { every(ctx, sweepEvery, s.sweep) })
	return s, nil
}

func inDirectory(dir string, err error) error { return fmt.Errorf("data directory %s: %w", dir, err) }

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

// Load implements engine.Store. A filter that is damaged is left out; Quarantined says
// why. An error concerns all filters.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	dirs, err := s.tidy()
	if err != nil {
		return nil, err
	}
	loaded := map[engine.Spec]engine.Set{}
	bad := clashing(dirs)
	for _, dir := range dirs {
		if bad[dir] != nil {
			s.quarantine(dir, bad[dir])
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		start := time.Now()
		k, set, found, err := s.loadHeld(dir)
		if ofAll(err) {
			return nil, err
		}
		if err != nil {
			s.quarantine(dir, err)
			continue
		}
		s.log.Info("filter loaded", "filter", k.spec.Name, "kind", k.spec.Kind, "bytes", k.memory.Bytes(), "replayed_keys", found.Keys,
			"torn_bytes", found.Torn, "took", time.Since(start).Round(time.Microsecond))
		loaded[k.spec] = set
	}
	return loaded, nil
}

// loadHeld is load, but first locks the folder if that is a link.
func (s *Store) loadHeld(dir string) (*diskFilter, engine.Set, journal.Found, error) {
	if err := s.holdLink(dir); err != nil {
		return nil, nil, journal.Found{}, fmt.Errorf("link %s: %w\nhint: see whether the disk that it leads to is mounted and may be written by this user, then start the daemon again", dir, err)
	}
	k, set, found, err := s.load(dir)
	if err != nil {
		err = errors.Join(err, s.freeLink(dir))
	}
	return k, set, found, err
}

// load reads one filter's folder: its description, its file, and the journal that
// follows it.
func (s *Store) load(dir string) (*diskFilter, engine.Set, journal.Found, error) {
	var none journal.Found
	spec, err := readSpec(dir)
	if err != nil {
		return nil, nil, none, damaged(err, dir)
	}
	of, err := kindOf(spec)
	if err != nil {
		return nil, nil, none, err
	}
	if err := s.opt.FS.SyncDir("folder-syncdir", dir); err != nil { // as tidy does for the directory above
		return nil, nil, none, err
	}
	st, err := readState(dir)
	if err == nil {
		err = st.described(dir)
	}
	if err != nil {
		return nil, nil, none, damaged(err, dir)
	}
	path := filepath.Join(dir, of.File)
	m, from, err := of.Read(spec, path, s.opt.Clock)
	if err != nil {
		return nil, nil, none, damaged(err, dir)
	}
	reached, err := st.owns(m, path)
	if err != nil {
		return nil, nil, none, damaged(errors.Join(err, m.Free()), dir)
	}
	found, err := replay(of, m, from, journal.Reading{Dir: dir, FS: s.opt.FS, Reached: reached})
	if err != nil {
		return nil, nil, none, damaged(errors.Join(err, m.Free()), dir)
	}
	if err := writeState(s.opt.FS, dir, m, found.Next); err != nil { // it is a safeguard: the filter is whole without it
		s.log.Warn("the state of a filter's journal is not recorded", "filter", spec.Name, "err", err)
	}
	k, set := s.start(spec, dir, of, m, found)
	return k, set, found, nil
}

// replay applies to m the journal that follows its file; r says how it is read.
func replay(of kind.Kind, m kind.Memory, from uint64, r journal.Reading) (journal.Found, error) {
	var applied error
	r.Generation, r.Mark, r.From, r.Width = m.Stats().Generation, markOf(m), from, of.Width
	r.Apply = func(slots []bloom.Hash) { applied = errors.Join(applied, m.Apply(slots)) }
	found, err := journal.Replay(r)
	return found, errors.Join(err, applied)
}

// start begins to serve a set whose journal goes on from what was found.
func (s *Store) start(spec engine.Spec, dir string, of kind.Kind, m kind.Memory, found journal.Found) (*diskFilter, engine.Set) {
	j := journal.Open(journal.Options{
		Dir: dir, FS: s.opt.FS, Sync: s.sync, Generation: m.Stats().Generation, Mark: markOf(m), Next: found.Next, Found: found.Bytes, Width: of.Width, Parts: of.Parts,
		FirstSegment: s.opt.SegmentBytes,
		Log:          s.log, Failed: s.fail,
		Synced: func(took time.Duration) { s.metrics.fsync.Observe(took.Seconds()) },
	})
	k := &diskFilter{store: s, spec: spec, dir: dir, kind: of, memory: m, journal: j}
	set := serve(k)
	s.mu.Lock()
	s.sets[spec.Name] = k
	s.mu.Unlock()
	return k, set
}

func kindOf(spec engine.Spec) (kind.Kind, error) {
	of, err := kinds.Of(spec.Kind)
	if err != nil {
		return of, fmt.Errorf("filter %s: %w", spec.Name, err)
	}
	return of, nil
}

// Drop implements engine.Store.
func (s *Store) Drop(_ context.Context, spec engine.Spec) error {
	s.mu.Lock()
	set := s.sets[spec.Name]
	s.mu.Unlock()
	if set == nil {
		return &engine.UnknownFilterError{Ref: spec.Name}
	}
	var away string
	err := s.withReserve(func() (err error) { away, err = set.drop(); return err })
	if err != nil {
		return nameSpace(fmt.Errorf("drop filter %s: %w", spec.Name, err))
	}
	s.mu.Lock()
	delete(s.sets, spec.Name)
	s.mu.Unlock()
	if err := errors.Join(s.freeLink(set.dir), removeFolder(s.opt.FS, "filter-drop-remove", away)); err != nil {
		s.log.Warn("files of a dropped filter are left; the next start removes them", "filter", spec.Name, "path", away, "err", err)
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

func (s *Store) all() []*diskFilter {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sets))
}

func every(ctx context.Context, interval time.Duration, work func()) {
	for range repeat.Every(ctx, interval) {
		work()
	}
}

// flush syncs for durability interval; an error is sticky and passed to fail.
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

// sweep releases a part of the expired items of each filter.
func (s *Store) sweep() {
	for _, set := range s.all() {
		if err := set.sweep(); err != nil { // nothing is wrong with what is left
			s.log.Debug("sweep", "filter", set.spec.Name, "err", err)
		}
	}
}

// Close implements engine.Store.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	var errs []error
	for _, set := range s.all() {
		errs = append(errs, set.close(), s.freeLink(set.dir))
	}
	errs = append(errs, s.lock.Release())
	if s.turn != nil {
		errs = append(errs, s.turn.Release())
	}
	return errors.Join(errs...)
}
