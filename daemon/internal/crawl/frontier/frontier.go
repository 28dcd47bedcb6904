// Package frontier is the durable queue of a crawl: which URIs were found, in which order they are
// fetched, and the outcome of each. It leases URIs to the threads of one process, and commits the
// outcome of a URI together with what was found on it. It fetches nothing, reads no page, and
// knows no file format: its caller provides outputs, which are committed with the rest.
//
// Leases are only in memory: one process has the folder, and URIs that it had leased when it died
// are still queued.
package frontier

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
)

const (
	databaseName = "crawl.db"
	lockName     = "crawl.lock"
)

// ErrDone is returned by Lease when enough pages are stored, or nothing is left that could become one.
var ErrDone = errors.New("the crawl is done")

// Filter says which URIs are new to it. Check remembers nothing; Remember marks URIs as seen.
type Filter interface {
	Check(ctx context.Context, uris []string) ([]bool, error)
	Remember(ctx context.Context, uris []string) error
}

// Output is a file that grows with the crawl. Its methods are called by one goroutine.
type Output interface {
	// Name is the name under which its state is stored.
	Name() string
	// Append adds the outcome of a URI. It need not be durable on return.
	Append(o *Outcome) error
	// Sync makes appended data durable, and returns the state of the output, such as its length.
	// When the output is opened again, it is cut back to its committed state.
	Sync() (state string, err error)
}

// Options say how URIs are leased.
type Options struct {
	MaxPages   int64          // how many pages are stored
	MaxDepth   int            // links farther from a seed are not queued; below 0: no bound
	MaxPerHost int64          // pages of one host; 0: no bound
	Attempts   int            // at one URI; 0: 1
	Strict     bool           // one lease at a time, in the exact order, however long the wait
	PerHost    int            // leases of one host at once; 0: no bound
	Delay      time.Duration  // between two requests to a host
	Rule       canonical.Rule // which spellings are one URI; it must not change during a crawl
	Filter     Filter         // asked before a URI is queued; nil: only the crawl's own table decides
	// Shared says that others use the filter: URIs that it has seen are not queued. If the filter
	// is the crawl's own, such a URI is a false positive, which is counted and queued.
	Shared  bool
	Outputs []Output
	Now     func() time.Time // nil: the system's
}

// Counts are the figures of a crawl.
type Counts struct {
	Stored         int64            `json:"stored"`          // pages
	Queued         int64            `json:"queued"`          // including those that wait for another attempt
	Failed         int64            `json:"failed"`          // permanently
	Retried        int64            `json:"retried"`         // attempts that were followed by another
	Redirected     int64            `json:"redirected"`      // to a different URI
	Elsewhere      int64            `json:"elsewhere"`       // seen by the shared filter
	FalsePositives int64            `json:"false_positives"` // of the crawl's own filter
	Duplicates     int64            `json:"duplicates"`      // pages with the same content as another
	Edges          int64            `json:"edges"`
	Bytes          int64            `json:"bytes"`   // of pages
	Reasons        map[string]int64 `json:"reasons"` // why URIs failed permanently
	Skipped        map[string]int64 `json:"skipped"` // links that were not queued, and why
	Seconds        float64          `json:"seconds"` // running time of the crawl
}

// state is committed together with the rows.
type state struct {
	Counts     Counts            `json:"counts"`
	Outputs    map[string]string `json:"outputs"`
	Remembered int64             `json:"remembered"` // ids up to this are known to the filter
}

// Frontier is an open frontier. It is safe for concurrent use.
type Frontier struct {
	lock  *disk.Lock
	write *sql.DB // one connection, which is
	conn  *sql.Conn
	stmts map[string]*sql.Stmt // of conn; like conn, the writer's once it was started
	read  *sql.DB
	opt   Options

	setting []byte // nil: the folder has no crawl
	changes chan *change
	stopped chan struct{} // the writer has ended; nil: it was not started
	began   time.Time
	before  float64 // seconds that the crawl had run before it was opened

	mu       sync.Mutex // guards the fields below
	names    canonical.Canonicalizer
	hosts    map[string]*host
	holds    map[string]time.Time // of hosts, until then; not saved yet
	ready    hostHeap
	waiting  hostHeap
	retries  entryHeap      // waiting for their time; none if Strict
	later    map[Key]*Entry // those of retries, and of the due of hosts, that are still valid
	inflight map[Key]*Lease
	claimed  map[Key]*Lease // targets of redirects that are being fetched
	state    state
	changed  chan struct{} // closed when a lease may have become possible
	failed   error
	closed   bool
}

// Open opens the frontier in a folder, or makes it. If another process has the folder, the
// error is a *disk.InUseError. Nothing can be leased before Start.
func Open(ctx context.Context, dir string) (_ *Frontier, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var fs disk.FS
	if err := fs.MkdirAll("crawl-dir", dir); err != nil {
		return nil, fmt.Errorf("folder of the crawl: %w", err)
	}
	f := &Frontier{hosts: map[string]*host{}, holds: map[string]time.Time{}, stmts: map[string]*sql.Stmt{}, later: map[Key]*Entry{}, inflight: map[Key]*Lease{}, claimed: map[Key]*Lease{}, changed: make(chan struct{})}
	if f.lock, err = disk.AcquireLock(filepath.Join(dir, lockName)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.closeFiles())
		}
	}()
	path := filepath.Join(dir, databaseName)
	if f.write, err = sqlitefile.Connect(path, 1, "journal_mode(WAL)", "synchronous(FULL)", "wal_autocheckpoint(4000)", "journal_size_limit(67108864)", "cache_size(-65536)"); err != nil {
		return nil, err
	}
	if err := prepare(ctx, f.write, path); err != nil {
		return nil, err
	}
	if err := fs.SyncDir("crawl-dir", dir); err != nil {
		return nil, err
	}
	if f.conn, err = f.write.Conn(ctx); err != nil {
		return nil, err
	}
	if f.read, err = sqlitefile.Connect(path, 2, "query_only(1)", "cache_size(-16384)"); err != nil {
		return nil, err
	}
	if f.setting, err = f.meta(ctx, "setting"); err != nil {
		return nil, err
	}
	text, err := f.meta(ctx, "state")
	if err == nil && text != nil {
		err = json.Unmarshal(text, &f.state)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	f.state.complete()
	f.before = f.state.Counts.Seconds
	return f, nil
}

func (s *state) complete() {
	if s.Outputs == nil {
		s.Outputs = map[string]string{}
	}
	if s.Counts.Reasons == nil {
		s.Counts.Reasons = map[string]int64{}
	}
	if s.Counts.Skipped == nil {
		s.Counts.Skipped = map[string]int64{}
	}
}

// Setting is the setting given to Begin; nil: the folder has no crawl.
func (f *Frontier) Setting() []byte { return f.setting }

// Committed is the committed state of an output, "" if it has none yet.
func (f *Frontier) Committed(output string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.state.Outputs[output]
}

// Counts returns the committed counts.
func (f *Frontier) Counts() Counts {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.countsLocked()
}

func (f *Frontier) countsLocked() Counts {
	c := f.state.Counts
	c.Reasons, c.Skipped = maps.Clone(c.Reasons), maps.Clone(c.Skipped)
	if !f.began.IsZero() {
		c.Seconds = f.before + f.opt.Now().Sub(f.began).Seconds()
	}
	return c
}

// Close waits for running commits. URIs of unsettled leases are still queued.
func (f *Frontier) Close() error {
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	f.wake()
	f.mu.Unlock()
	var err error
	if f.stopped != nil {
		close(f.changes)
		<-f.stopped
		if f.failed == nil {
			err = f.writeState()
		}
	}
	return errors.Join(err, f.closeFiles())
}

func (f *Frontier) closeFiles() error {
	var errs []error
	for _, stmt := range f.stmts {
		errs = append(errs, stmt.Close())
	}
	if f.conn != nil {
		errs = append(errs, f.conn.Close())
	}
	for _, db := range []*sql.DB{f.read, f.write} {
		if db != nil {
			errs = append(errs, db.Close())
		}
	}
	return errors.Join(append(errs, f.lock.Release())...)
}

// Entry is a URI to be fetched.
type Entry struct {
	ID       int64 // the order of discovery
	Key      Key
	URI      string
	Host     string // the host to call
	Depth    int    // links from a seed
	Referrer string // where it was found; "": a seed
	Attempts int    // failed ones
	after    time.Time
	host     *host
}

// Origin is scheme, host and port of the URI.
func (e *Entry) Origin() string {
	scheme, rest, _ := strings.Cut(e.URI, "://")
	authority, _, _ := strings.Cut(rest, "/")
	return scheme + "://" + authority
}

// compare is the order in which URIs are fetched: by depth, then those that failed last, then as
// they were found.
func (e *Entry) compare(o *Entry) int {
	return cmp.Or(cmp.Compare(e.Depth, o.Depth), cmp.Compare(e.Attempts, o.Attempts), cmp.Compare(e.ID, o.ID))
}

func (e *Entry) before(o *Entry) bool { return e.compare(o) < 0 }

// entryHeap is ordered by fetching order, or by time.
type entryHeap struct {
	all    []*Entry
	byTime bool
}

func (h *entryHeap) Len() int      { return len(h.all) }
func (h *entryHeap) Swap(i, j int) { h.all[i], h.all[j] = h.all[j], h.all[i] }
func (h *entryHeap) Push(x any)    { h.all = append(h.all, x.(*Entry)) }
func (h *entryHeap) Less(i, j int) bool {
	if a, b := h.all[i], h.all[j]; h.byTime && !a.after.Equal(b.after) {
		return a.after.Before(b.after)
	}
	return h.all[i].before(h.all[j])
}
func (h *entryHeap) Pop() any {
	last := h.all[len(h.all)-1]
	h.all = h.all[:len(h.all)-1]
	return last
}

func (h *entryHeap) top() *Entry {
	if len(h.all) == 0 {
		return nil
	}
	return h.all[0]
}

// LongestPause is the longest pause of a host or a URI, whatever the host says: a crawl must end.
const LongestPause = 10 * time.Minute

// saved is the end of a pause that was saved. The clock may have been set back since.
func (f *Frontier) saved(millis int64) time.Time {
	if millis == 0 {
		return time.Time{}
	}
	at, latest := time.UnixMilli(millis), f.opt.Now().Add(LongestPause)
	if at.After(latest) {
		return latest
	}
	return at
}

// rememberTogether is how many URIs the filter gets at once.
const rememberTogether = 1000

// Start makes leases possible. The crawl must exist, from now or from an earlier process.
func (f *Frontier) Start(ctx context.Context, o Options) error {
	o.Attempts = cmp.Or(o.Attempts, 1)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Strict {
		o.PerHost = 1
	}
	f.opt = o
	f.waiting.byTime, f.retries.byTime = true, true
	if err := f.rememberAll(ctx); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.hosts)
	if err := sqlitefile.Each(ctx, f.read, func(rows *sql.Rows) error {
		var id, stored, held int64
		var name string
		if err := rows.Scan(&id, &name, &stored, &held); err != nil {
			return err
		}
		h := f.hostNamed(name)
		h.id, h.stored = id, stored
		h.hold(f.saved(held))
		return nil
	}, "SELECT id, name, stored, held_until FROM hosts"); err != nil {
		return err
	}
	if err := f.eachEntry(ctx, func(e *Entry, _ int) { f.retry(e) }, "u.state = 1"); err != nil {
		return err
	}
	heap.Init(&f.retries)
	for _, h := range f.hosts {
		f.place(h)
	}
	if f.failed != nil {
		return f.failed
	}
	f.began = o.Now()
	f.changes, f.stopped = make(chan *change, maxTogether), make(chan struct{})
	go func() {
		defer close(f.stopped)
		f.run()
	}()
	return nil
}

// rememberAll sends the filter committed URIs that may not have reached it.
func (f *Frontier) rememberAll(ctx context.Context) error {
	if f.opt.Filter == nil {
		return nil
	}
	for {
		var uris []string
		last := int64(0)
		if err := sqlitefile.Each(ctx, f.read, func(rows *sql.Rows) error {
			var uri string
			var state int
			if err := rows.Scan(&last, &uri, &state); err != nil {
				return err
			}
			if state != elsewhere {
				uris = append(uris, uri)
			}
			return nil
		}, "SELECT id, uri, state FROM uris WHERE id > ? ORDER BY id LIMIT ?", f.state.Remembered, rememberTogether); err != nil {
			return err
		}
		if last == 0 {
			return nil
		}
		if len(uris) > 0 {
			if err := f.opt.Filter.Remember(ctx, uris); err != nil {
				return err
			}
		}
		f.state.Remembered = last
	}
}
