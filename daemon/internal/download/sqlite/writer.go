package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Bounds of one transaction, so that nobody waits long while others fill it.
const (
	maxTogether = 512  // changes
	maxWeight   = 4000 // rows, about
)

// change is what one caller wants done in a transaction.
type change struct {
	ctx    context.Context // checked only before the change begins
	weight int             // rows, about
	// do may be called again after the transaction was rolled back. An error for which answer
	// returns true must come before anything was changed.
	do   func(*tx) error
	done chan error
}

// answer reports whether an error belongs to the contract: the transaction then continues.
func answer(err error) bool {
	return errors.Is(err, download.ErrNoJob) || errors.Is(err, download.ErrExists) || errors.Is(err, download.ErrLeaseLost)
}

// write has the writer do a change, and returns when it is durable, or was not done.
func (s *Store) write(ctx context.Context, weight int, do func(*tx) error) error {
	c := &change{ctx, weight, do, make(chan error, 1)}
	s.mu.RLock()
	if s.closed {
		s.mu.RUnlock()
		return errClosed
	}
	s.changes <- c
	s.mu.RUnlock()
	return <-c.done
}

// writer owns the one connection that changes the database. Its fields belong to its goroutine.
type writer struct {
	store      *Store
	db         *sql.DB
	conn       *sql.Conn
	statements map[string]*sql.Stmt
	jobs       map[int64]liveJob // nil: must be read
	turns      turns
	version    int64      // of the database, see othersChanged
	gate       *disk.Gate // nil unless other processes may also write
	failed     error      // set once the disk has failed: nothing is written any more
}

// liveJob is what changes of tasks need to know about a job that was not dropped.
type liveJob struct {
	on    bool
	lane  download.Lane
	needs []string
}

func newWriter(ctx context.Context, s *Store, path string) (*writer, error) {
	db, err := sqlitefile.Connect(path, 1, "synchronous(FULL)", "wal_autocheckpoint(6000)", "journal_size_limit(67108864)", "cache_size(-32768)")
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	w := &writer{store: s, db: db, conn: conn, statements: map[string]*sql.Stmt{}, turns: turns{next: map[int64]int{}}}
	if s.opt.Shared {
		if w.gate, err = disk.OpenGate(filepath.Join(filepath.Dir(path), gateName)); err != nil {
			return nil, errors.Join(err, w.close())
		}
	}
	return w, nil
}

func (w *writer) close() error {
	var errs []error
	for _, stmt := range w.statements {
		errs = append(errs, stmt.Close())
	}
	if w.gate != nil {
		errs = append(errs, w.gate.Close())
	}
	return errors.Join(append(errs, w.conn.Close(), w.db.Close())...)
}

// run does changes until the channel is closed. Changes that come while a transaction is synced
// are done together in the next one.
func (w *writer) run(changes <-chan *change) {
	for first := range changes {
		together := []*change{first}
		weight := first.weight
	gather:
		for len(together) < maxTogether && weight < maxWeight {
			select {
			case c, ok := <-changes:
				if !ok {
					break gather
				}
				together = append(together, c)
				weight += c.weight
			default:
				break gather
			}
		}
		w.commit(together)
	}
}

// commit does changes in one transaction. If one of them fails, each gets a separate one.
func (w *writer) commit(together []*change) {
	if w.failed != nil {
		for _, c := range together {
			c.done <- w.failed
		}
		return
	}
	errs, err := w.try(together)
	if err != nil && sqlitefile.Broken(err) {
		w.failed = fmt.Errorf("download store: the disk failed, nothing more is stored until the program starts again: %w", err)
		err = w.failed
		if told := w.store.opt.Failed; told != nil {
			told(err)
		}
	}
	switch {
	case err == nil:
		if told := w.store.opt.Committed; told != nil {
			told(len(together))
		}
		for i, c := range together {
			c.done <- errs[i]
		}
	case len(together) == 1 || w.failed != nil:
		for _, c := range together {
			c.done <- err
		}
	default:
		for _, c := range together {
			w.commit([]*change{c})
		}
	}
}

// try returns the answer to each change. If it returns an error, nothing was done.
func (w *writer) try(together []*change) (answers []error, err error) {
	if w.gate != nil {
		if err := w.gate.Enter(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, w.gate.Leave()) }()
	}
	if err := w.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			w.jobs, w.turns.out = nil, nil
			_ = w.exec("ROLLBACK") // SQLite may have rolled back already
		}
	}()
	if w.store.opt.Shared {
		changed, err := w.othersChanged()
		if err != nil {
			return nil, err
		}
		if changed {
			w.jobs, w.turns.out = nil, nil
		}
	}
	t := &tx{w: w, now: w.store.now(), counts: map[countKey]int{}, out: map[outKey]int{}}
	answers = make([]error, len(together))
	for i, c := range together {
		if answers[i] = c.ctx.Err(); answers[i] != nil {
			continue
		}
		if answers[i] = c.do(t); answers[i] != nil && !answer(answers[i]) {
			return nil, answers[i]
		}
	}
	for key, n := range t.counts {
		if n == 0 {
			continue
		}
		if err := w.exec("INSERT INTO counts (job, state, n) VALUES (?, ?, ?) ON CONFLICT DO UPDATE SET n = n + excluded.n", key.job, key.state, n); err != nil {
			return nil, err
		}
	}
	if err := w.exec("COMMIT"); err != nil {
		return nil, err
	}
	w.turns.add(t.out)
	return answers, nil
}

func (w *writer) statement(query string) (*sql.Stmt, error) {
	if stmt := w.statements[query]; stmt != nil {
		return stmt, nil
	}
	stmt, err := w.conn.PrepareContext(context.Background(), query)
	if err == nil {
		w.statements[query] = stmt
	}
	return stmt, err
}

func (w *writer) exec(query string, args ...any) error {
	_, err := w.execCount(query, args...)
	return err
}

func (w *writer) execCount(query string, args ...any) (int, error) {
	stmt, err := w.statement(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.Exec(args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// each calls scan for every row. The statement must not be run again before it returns.
func (w *writer) each(scan func(*sql.Rows) error, query string, args ...any) error {
	stmt, err := w.statement(query)
	if err != nil {
		return err
	}
	rows, err := stmt.Query(args...)
	if err != nil {
		return err
	}
	return sqlitefile.EachRow(rows, scan)
}

// tx is a transaction in which changes work.
type tx struct {
	w      *writer
	now    int64
	counts map[countKey]int // differences to be added to the counts
	out    map[outKey]int   // differences to be added to those of turns
}

type countKey struct {
	job   int64
	state int
}

// countMoved counts n tasks of a queue of a job that went from one state to another.
func (t *tx) countMoved(job int64, queue, from, to, n int) {
	t.counts[countKey{job, from}] -= n
	t.counts[countKey{job, to}] += n
	switch was, is := isOut(from), isOut(to); {
	case is && !was:
		t.out[outKey{job, queue}] += n
	case was && !is:
		t.out[outKey{job, queue}] -= n
	}
}

// jobs returns the jobs that were not dropped.
func (t *tx) jobs() (map[int64]liveJob, error) {
	if t.w.jobs != nil {
		return t.w.jobs, nil
	}
	jobs := map[int64]liveJob{}
	err := t.w.each(func(rows *sql.Rows) error {
		var id int64
		var j liveJob
		var needs string
		if err := rows.Scan(&id, &j.on, &j.lane, &needs); err != nil {
			return err
		}
		j.needs = strings.Fields(needs)
		jobs[id] = j
		return nil
	}, "SELECT id, is_on, lane, needs FROM jobs WHERE dropped = 0")
	if err != nil {
		return nil, err
	}
	t.w.jobs = jobs
	return jobs, nil
}

// live returns the job with an id: ErrNoJob.
func (t *tx) live(id int64) (liveJob, error) {
	jobs, err := t.jobs()
	if err != nil {
		return liveJob{}, err
	}
	j, ok := jobs[id]
	if !ok {
		return liveJob{}, download.ErrNoJob
	}
	return j, nil
}
