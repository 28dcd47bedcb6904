package frontier

import (
	"cmp"
	"container/heap"
	"context"
	"database/sql"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk/sqlitefile"
)

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
	rows, err := f.read.QueryContext(ctx, "SELECT id, name, stored FROM hosts")
	if err != nil {
		return err
	}
	if err := sqlitefile.EachRow(rows, func(rows *sql.Rows) error {
		var id, stored int64
		var name string
		if err := rows.Scan(&id, &name, &stored); err != nil {
			return err
		}
		h := f.hostNamed(name)
		h.id, h.stored = id, stored
		return nil
	}); err != nil {
		return err
	}
	if rows, err = f.read.QueryContext(ctx, entryQuery+" WHERE u.state = 1"); err != nil {
		return err
	}
	if err := f.scanEntries(rows, func(e *Entry, _ int) { f.retry(e) }); err != nil {
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
	f.changes, f.stopped = make(chan *change, mostTogether), make(chan struct{})
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
		rows, err := f.read.QueryContext(ctx, "SELECT id, uri, state FROM uris WHERE id > ? ORDER BY id LIMIT ?", f.state.Remembered, rememberTogether)
		if err != nil {
			return err
		}
		var uris []string
		last := int64(0)
		if err := sqlitefile.EachRow(rows, func(rows *sql.Rows) error {
			var uri string
			var state int
			if err := rows.Scan(&last, &uri, &state); err != nil {
				return err
			}
			if state != elsewhere {
				uris = append(uris, uri)
			}
			return nil
		}); err != nil {
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
