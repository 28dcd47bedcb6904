// Package mysql keeps filters in MariaDB, where several daemons share them: one table per
// filter, one row per item. The server's transactions ensure that an item is new once; answers
// are as durable as its commits are, and nothing is kept here that could differ from it.
//
//	urifilter_filters        name, id, entry (JSON), items_table: one row per filter
//	urifilter_ids            name, id: which were given; the name :highest has the highest
//	urifilter_items_ID_TAG   k, batch: the hash of an item, and a number of the batch that brought it
//	urifilter_reservations   and urifilter_reserved: reservations, see reserve.go
//	urifilter_quarantine     entries that were dropped from quarantine, see quarantine.go
//
// Each has a comment by which it is recognized as ours. The first two are changed, and tables of
// the third are created and dropped, by one daemon at a time, under a named lock of the server.
// batch.go says why a batch is safe to repeat.
//
// It does not hash, and knows no items.
package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/store/shared"
)

// Config of a store.
type Config struct {
	Options
	Log *slog.Logger
	// Durable refuses a server whose commits are not on its disk.
	Durable bool
}

// Store implements engine.Store.
type Store struct {
	opt Config
	log *slog.Logger
	// batches are the connections for batches, which are cut when nothing comes for long; admin
	// are those for everything else, which may take longer.
	batches, admin *sql.DB
	packet         atomic.Int64 // the most bytes that the server accepts at once
	version        string       // of the server, when it was opened
	made           bool         // tables were missing then

	mu    sync.Mutex
	sets  map[string]*Set
	fault error // why batches are refused: the server does not meet the requirements
	away  error // why the server could not be reached at the last attempt; nil: it could

	bad shared.Quarantine

	// changing is held while registry and sets are changed or compared together.
	changing shared.Lock
	untidy   atomic.Bool   // tables that no filter has may exist
	early    chan struct{} // poll must not wait for its next tick

	feed *engine.Feed
	run  context.Context // ends with Close
	stop context.CancelFunc
	work sync.WaitGroup
}

var (
	_ engine.Store   = (*Store)(nil)
	_ engine.Numbers = (*Store)(nil)
	_ engine.Shared  = (*Store)(nil)
)

// Open connects, refuses a server that does not meet the requirements, and creates the tables
// that all filters share if they are missing. Load reads the filters.
func Open(ctx context.Context, c Config) (_ *Store, err error) {
	s := &Store{opt: c, log: c.Log, changing: shared.NewLock(), sets: map[string]*Set{}, feed: engine.NewFeed(), early: make(chan struct{}, 1)}
	s.run, s.stop = context.WithCancel(context.Background())
	probe, err := c.open(nil, 0)
	if err != nil {
		return nil, err
	}
	defer probe.Close()
	if err := s.demand(ctx, probe); err != nil {
		return nil, c.explain(err)
	}
	if err := probe.QueryRowContext(ctx, "select version()").Scan(&s.version); err != nil {
		return nil, c.explain(err)
	}
	if s.batches, err = c.open(sessionSettings(), replyTimeout); err != nil {
		return nil, err
	}
	s.batches.SetMaxOpenConns(maxConnections)
	s.batches.SetMaxIdleConns(maxConnections)
	s.batches.SetConnMaxIdleTime(idleTimeout / 2)
	if s.admin, err = c.open(sessionSettings(), 0); err == nil {
		s.admin.SetConnMaxIdleTime(idleTimeout / 2)
		err = s.ensureTables(ctx)
	}
	if err != nil {
		return nil, errors.Join(c.explain(err), s.Close())
	}
	return s, nil
}

// Load implements engine.Store.
func (s *Store) Load(ctx context.Context) (map[engine.Spec]engine.Set, error) {
	if err := s.tidy(ctx); err != nil {
		return nil, s.opt.explain(err)
	}
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return nil, s.opt.explain(err)
	}
	loaded := map[engine.Spec]engine.Set{}
	for _, e := range entries {
		start := time.Now()
		set, err := s.load(ctx, e)
		if shared.IsDamaged(err) {
			s.quarantine(e, err)
			continue
		}
		if err != nil {
			return nil, s.opt.explain(err)
		}
		s.adopt(set)
		loaded[e.spec] = set
		st := set.Stats()
		s.log.Info("filter loaded", "filter", e.spec.Name, "kind", e.spec.Kind, "store", Name, "items", st.Items, "took", time.Since(start).Round(time.Millisecond))
	}
	s.work.Go(s.poll)
	s.work.Go(s.letGo)
	return loaded, nil
}

// Name is the name of the store in the settings of filters.
const Name = configs.StoreMySQL

// takes refuses a filter of a kind that this store does not keep.
func takes(spec engine.Spec) error {
	if kind, ok := configs.KindOf(spec.Kind); ok && kind.Has("store") {
		if wrong := spec.NotIn(Name); wrong != nil {
			return wrong
		}
		return nil
	}
	return &engine.SpecError{Field: "kind", Msg: fmt.Sprintf("%q: MariaDB keeps filters of the kind %s", spec.Kind, configs.KindsWith("store"))}
}

// load makes the set of an entry, whose table must exist.
func (s *Store) load(ctx context.Context, e entry) (*Set, error) {
	if e.unread != "" {
		return nil, shared.Damaged(errors.New(e.unread))
	}
	if err := takes(e.spec); err != nil {
		return nil, shared.Damaged(fmt.Errorf("table %s: %w\nhint: it was made by a newer urifilter: update this one", filtersTable, err))
	}
	if err := checkItems(ctx, s.admin, e); err != nil {
		return nil, err
	}
	set := &Set{store: s, entry: e}
	return set, set.recount(ctx)
}

// adopt serves a set in place of the one of its name, or returns that one if it has the same
// entry.
func (s *Store) adopt(set *Set) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	have := s.sets[set.spec.Name]
	if have != nil && have.entry == set.entry {
		return have
	}
	if have != nil {
		have.gone.Store(true)
	}
	s.sets[set.spec.Name] = set
	return set
}

// end ends a set that no longer exists.
func (s *Store) end(set *Set) {
	set.gone.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets[set.spec.Name] == set {
		delete(s.sets, set.spec.Name)
	}
}

func (s *Store) find(name string) *Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sets[name]
}

func (s *Store) all() []*Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.sets))
}

// Holds implements engine.Shared.
func (s *Store) Holds(ctx context.Context, spec engine.Spec) (bool, error) {
	entries, err := readEntries(ctx, s.admin)
	if err != nil {
		return true, s.trouble(err)
	}
	found := slices.ContainsFunc(entries, func(e entry) bool { return e.spec == spec || e.unread != "" && e.spec.Name == spec.Name })
	if !found {
		s.pollSoon() // which ends it
	}
	return found, nil
}

// CatchUp implements engine.Shared.
func (s *Store) CatchUp(ctx context.Context) error {
	if err := s.follow(ctx); err != nil {
		return s.trouble(err)
	}
	return s.feed.Await(ctx)
}

// Ready implements engine.Store.
func (s *Store) Ready(ctx context.Context) error {
	if err := s.refusing(); err != nil {
		return err
	}
	return s.trouble(s.batches.PingContext(ctx))
}

// refusing returns why batches are refused; nil: they are not.
func (s *Store) refusing() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return fmt.Errorf("%w: %w", engine.ErrUnavailable, s.fault)
	}
	return nil
}

// Failed implements engine.Store: any fault of the server can be mended, so this store never
// fails for good.
func (s *Store) Failed() <-chan struct{} { return nil }

// Changes implements engine.Store.
func (s *Store) Changes() <-chan engine.Change { return s.feed.Changes() }

// Close implements engine.Store.
func (s *Store) Close() error {
	s.stop()
	s.work.Wait()
	s.feed.Close()
	var errs []error
	for _, db := range []*sql.DB{s.batches, s.admin} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(errs...)
}
