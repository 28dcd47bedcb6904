package frontier

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// maxTogether is how many changes one transaction has at most.
const maxTogether = 256

// run commits changes until no more can come. Changes that come while a transaction is synced
// are done together in the next one.
func (f *Frontier) run() {
	for first := range f.changes {
		together := []*change{first}
	gather:
		for len(together) < maxTogether {
			select {
			case c, ok := <-f.changes:
				if !ok {
					break gather
				}
				together = append(together, c)
			default:
				break gather
			}
		}
		f.commit(together)
	}
}

// commit does changes in one transaction, with the outputs. After an error the state of the
// outputs is unknown: the frontier has failed, and must be opened again.
func (f *Frontier) commit(together []*change) {
	f.mu.Lock()
	err := f.failed
	f.mu.Unlock()
	var w *writer
	if err == nil {
		w, err = f.transact(together)
	}
	if err == nil && f.opt.Filter != nil {
		if err = w.remember(); err != nil {
			err = fmt.Errorf("filter: %w", err)
		}
	}
	if err != nil {
		f.mu.Lock()
		f.fail(err)
		f.mu.Unlock()
		for _, c := range together {
			c.done <- settled{nil, err}
		}
		return
	}
	f.publish(slices.DeleteFunc(slices.Clone(together), func(c *change) bool { return c.lease == nil }), w)
	for i, c := range together {
		c.done <- settled{w.outcomes[i], nil}
	}
}

func (f *Frontier) transact(together []*change) (*writer, error) {
	w, err := f.begin()
	if err != nil {
		return nil, err
	}
	defer w.rollback()
	f.mu.Lock()
	w.state = f.state
	w.state.Counts = f.countsLocked()
	f.mu.Unlock()
	w.state.Outputs = maps.Clone(w.state.Outputs)
	if err := w.askFilter(together); err != nil {
		return nil, err
	}
	for _, c := range together {
		if c.lease == nil {
			w.outcomes = append(w.outcomes, nil)
			continue
		}
		o, err := w.settle(c)
		if err != nil {
			return nil, err
		}
		for _, out := range f.opt.Outputs {
			if err := out.Append(o); err != nil {
				return nil, err
			}
		}
		w.outcomes = append(w.outcomes, o)
	}
	if err := w.saveHolds(); err != nil {
		return nil, err
	}
	if err := w.syncOutputs(); err != nil {
		return nil, err
	}
	if err := w.saveState(w.state); err != nil {
		return nil, err
	}
	return w, w.commit()
}

// writer is one transaction.
type writer struct {
	f        *Frontier
	over     bool
	hosts    map[string]int64
	state    state
	fresh    map[Key]bool // the filter's answers for URIs that have no row
	keys     map[string]Key
	outcomes []*Outcome

	added   []*Entry // rows that are queued
	lowered []*Entry // rows whose depth became less
	again   []*Entry // to be retried
	pages   map[string]int64
	tell    []string // URIs for the filter to remember
	last    int64    // id
}

// begin begins a transaction, which ends with commit or rollback.
func (f *Frontier) begin() (*writer, error) {
	w := &writer{f: f, hosts: map[string]int64{}, fresh: map[Key]bool{}, keys: map[string]Key{}, pages: map[string]int64{}}
	_, err := w.exec("BEGIN IMMEDIATE")
	return w, err
}

func (w *writer) commit() error {
	_, err := w.exec("COMMIT")
	w.over = err == nil
	return err
}

// rollback undoes what was not committed.
func (w *writer) rollback() {
	if !w.over {
		_, _ = w.exec("ROLLBACK") // SQLite may have rolled back already
	}
}

// stmt returns a statement, prepared once.
func (w *writer) stmt(query string) (*sql.Stmt, error) {
	if s := w.f.stmts[query]; s != nil {
		return s, nil
	}
	s, err := w.f.conn.PrepareContext(context.Background(), query)
	if err == nil {
		w.f.stmts[query] = s
	}
	return s, err
}

func (w *writer) exec(query string, args ...any) (sql.Result, error) {
	s, err := w.stmt(query)
	if err != nil {
		return nil, err
	}
	return s.Exec(args...)
}

// scan reads one row; false: there is none.
func (w *writer) scan(query string, args []any, to ...any) (bool, error) {
	s, err := w.stmt(query)
	if err != nil {
		return false, err
	}
	err = s.QueryRow(args...).Scan(to...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (w *writer) saveState(s state) error {
	text, err := json.Marshal(s)
	if err == nil {
		_, err = w.exec("INSERT OR REPLACE INTO meta (name, value) VALUES ('state', ?)", text)
	}
	return err
}

// saveHolds saves until when hosts asked to be left alone, for the next process.
func (w *writer) saveHolds() error {
	w.f.mu.Lock()
	holds := w.f.holds
	w.f.holds = map[string]time.Time{}
	w.f.mu.Unlock()
	for name, until := range holds {
		id, err := w.hostID(name) // perhaps of a host to which only redirects have led
		if err != nil {
			return err
		}
		if _, err := w.exec("UPDATE hosts SET held_until = ? WHERE id = ?", millis(until), id); err != nil {
			return err
		}
	}
	return nil
}

// syncOutputs makes appended data durable, in all files at once.
func (w *writer) syncOutputs() error {
	outs := w.f.opt.Outputs
	states, errs := make([]string, len(outs)), make([]error, len(outs))
	var all sync.WaitGroup
	for i, out := range outs {
		all.Go(func() { states[i], errs[i] = out.Sync() })
	}
	all.Wait()
	for i, out := range outs {
		w.state.Outputs[out.Name()] = states[i]
	}
	return errors.Join(errs...)
}

// remember sends the filter the committed URIs.
func (w *writer) remember() error {
	for i := 0; i < len(w.tell); i += rememberTogether {
		if err := w.f.opt.Filter.Remember(context.Background(), w.tell[i:min(len(w.tell), i+rememberTogether)]); err != nil {
			return err
		}
	}
	w.state.Remembered = max(w.state.Remembered, w.last)
	return nil
}

// publish makes committed changes known to Lease.
func (f *Frontier) publish(together []*change, w *writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	began := f.state.Counts.Seconds
	f.state = w.state
	f.state.Counts.Seconds = began
	for name, id := range w.hosts {
		h := f.hostNamed(name)
		if h.id == 0 {
			h.id = id
		}
	}
	touched := map[*host]bool{}
	for name, n := range w.pages {
		h := f.hostNamed(name)
		h.stored += n
		touched[h] = true
	}
	for _, c := range together {
		delete(f.inflight, c.lease.Key)
		f.leave(c.lease)
		touched[c.lease.host] = true
	}
	for _, c := range together {
		for _, claimed := range c.lease.claims {
			delete(f.later, claimed.key) // it may be stored; if it still waits, endClaims sees that
		}
		f.endClaims(c.lease)
	}
	for _, e := range w.lowered {
		e.host = f.hostNamed(e.Host)
		e.host.reread()
		touched[e.host] = true
	}
	for _, e := range w.added {
		if e.host = f.hostNamed(e.Host); !f.taken(e.Key) {
			e.host.insert(e)
		}
		touched[e.host] = true
	}
	for _, e := range w.again {
		e.host = f.hostNamed(e.Host)
		f.retry(e)
		touched[e.host] = true
	}
	for h := range touched {
		f.place(h)
	}
	f.wake()
}

func millis(t time.Time) int64 { return t.UnixMilli() }
