package frontier

import (
	"context"
	"fmt"
)

// row is a URI that has a row in the database.
type row struct {
	id       int64
	uri      string
	depth    int
	state    int
	attempts int
	reason   string // of the last failed attempt
}

func (w *writer) key(uri string) Key {
	key, ok := w.keys[uri]
	if !ok {
		w.f.mu.Lock()
		key = w.f.keyLocked(uri)
		w.f.mu.Unlock()
		w.keys[uri] = key
	}
	return key
}

func (w *writer) row(key Key) (*row, error) {
	r := &row{}
	ok, err := w.scan("SELECT id, uri, depth, state, attempts, reason FROM uris WHERE key = ?", []any{key[:]}, &r.id, &r.uri, &r.depth, &r.state, &r.attempts, &r.reason)
	if !ok {
		return nil, err
	}
	return r, nil
}

// source is where a URI was found; the zero value means a seed.
type source struct {
	id  int64
	uri string
}

// hostID returns the row of a host, and makes it if it is missing.
func (w *writer) hostID(name string) (int64, error) {
	if id := w.hosts[name]; id != 0 {
		return id, nil
	}
	var id int64
	ok, err := w.scan("SELECT id FROM hosts WHERE name = ?", []any{name}, &id)
	if err != nil {
		return 0, err
	}
	if !ok {
		result, err := w.exec("INSERT INTO hosts (name) VALUES (?)", name)
		if err != nil {
			return 0, err
		}
		if id, err = result.LastInsertId(); err != nil {
			return 0, err
		}
	}
	w.hosts[name] = id
	return id, nil
}

// add makes the row of a URI that has none.
func (w *writer) add(key Key, t Target, depth int, from source, state int) (*row, error) {
	host, err := w.hostID(t.Host)
	if err != nil {
		return nil, err
	}
	result, err := w.exec("INSERT INTO uris (key, uri, host, depth, referrer, state) VALUES (?, ?, ?, ?, ?, ?)", key[:], t.URI, host, depth, from.id, state)
	if err != nil {
		return nil, err
	}
	id, err := result.LastInsertId()
	if err != nil {
		return nil, err
	}
	if w.last = id; state != elsewhere {
		w.tell = append(w.tell, t.URI)
	}
	if state == queued {
		w.added = append(w.added, &Entry{ID: id, Key: key, URI: t.URI, Host: t.Host, Depth: depth, Referrer: from.uri})
	}
	return &row{id: id, uri: t.URI, depth: depth, state: state}, nil
}

// askFilter asks the filter about all links without a row, before any row is made.
func (w *writer) askFilter(together []*change) error {
	if w.f.opt.Filter == nil {
		return nil
	}
	var uris []string
	var keys []Key
	for _, c := range together {
		for _, l := range c.Links {
			if !l.Queue || w.tooDeep(c) {
				continue
			}
			key := w.key(l.URI)
			if _, known := w.fresh[key]; known {
				continue
			}
			if r, err := w.row(key); err != nil {
				return err
			} else if r == nil {
				w.fresh[key] = true
				uris, keys = append(uris, l.URI), append(keys, key)
			}
		}
	}
	for i := 0; i < len(uris); i += rememberTogether {
		end := min(len(uris), i+rememberTogether)
		news, err := w.f.opt.Filter.Check(context.Background(), uris[i:end])
		if err != nil {
			return fmt.Errorf("filter: %w", err)
		}
		for j, isNew := range news {
			w.fresh[keys[i+j]] = isNew
		}
	}
	return nil
}

func (w *writer) tooDeep(c *change) bool {
	return w.f.opt.MaxDepth >= 0 && c.lease.Depth >= w.f.opt.MaxDepth
}

// settle applies the outcome of one lease.
func (w *writer) settle(c *change) (*Outcome, error) {
	o := &Outcome{Entry: c.lease.Entry, Result: c.Result, Final: true, URI: c.lease.URI, Time: w.f.opt.Now()}
	for why, n := range c.Skipped {
		w.state.Counts.Skipped[why] += n
	}
	var err error
	switch {
	case c.Failure != nil:
		err = w.failure(c, o)
	default:
		err = w.page(c, o)
	}
	if err != nil {
		return nil, err
	}
	return o, w.links(c, o)
}

func (w *writer) failure(c *change, o *Outcome) error {
	e, counts := c.lease.Entry, &w.state.Counts
	e.Attempts++
	if o.Final = c.Failure.Permanent || e.Attempts >= w.f.opt.Attempts; o.Final {
		counts.Failed++
		counts.Queued--
		counts.Reasons[c.Failure.Reason]++
		_, err := w.exec("UPDATE uris SET state = ?, attempts = ?, reason = ? WHERE id = ?", failed, e.Attempts, c.Failure.Reason, e.ID)
		return err
	}
	counts.Retried++
	e.after = w.f.opt.Now().Add(c.Failure.After)
	w.again = append(w.again, &e)
	_, err := w.exec("UPDATE uris SET state = ?, attempts = ?, not_before = ?, reason = ? WHERE id = ?", waiting, e.Attempts, millis(e.after), c.Failure.Reason, e.ID)
	return err
}

// page stores a page, under the URI to which the redirects led.
func (w *writer) page(c *change, o *Outcome) error {
	counts := &w.state.Counts
	at := &row{id: c.lease.ID, uri: c.lease.URI, state: queued}
	host, key := c.lease.Host, c.lease.Key
	for i, t := range c.Redirects {
		next := w.key(t.URI)
		last := i == len(c.Redirects)-1
		if next == key {
			continue
		}
		if at.state == queued || at.state == waiting {
			if err := w.leaves(at); err != nil {
				return err
			}
		}
		r, err := w.row(next)
		if err != nil {
			return err
		}
		if r == nil && (c.Page != nil || !last) {
			if r, err = w.add(next, t, c.lease.Depth, source{c.lease.ID, c.lease.URI}, redirected); err != nil {
				return err
			}
		}
		if r == nil { // the URI had no row
			return nil
		}
		at, host, key = r, t.Host, next
	}
	if c.Page == nil {
		if at.id == c.lease.ID { // it is not stored under its own URI either
			return w.leaves(at)
		}
		return nil
	}
	if at.state == stored { // nobody else stores a claimed URI
		return fmt.Errorf("%s is stored already", at.uri)
	}
	switch at.state {
	case queued, waiting:
		counts.Queued--
	case failed:
		counts.Failed--
		if counts.Reasons[at.reason]--; counts.Reasons[at.reason] <= 0 {
			delete(counts.Reasons, at.reason)
		}
	}
	hostID, err := w.hostID(host)
	if err != nil {
		return err
	}
	if ok, err := w.scan("SELECT u.uri FROM pages p JOIN uris u ON u.id = p.id WHERE p.hash = ? ORDER BY p.id LIMIT 1", []any{c.Page.Hash}, &o.Original); err != nil {
		return err
	} else if ok {
		counts.Duplicates++
	}
	for query, args := range map[string][]any{
		"UPDATE uris SET state = ?, reason = '' WHERE id = ?": {stored, at.id},
		"INSERT INTO pages (id, file, hash) VALUES (?, ?, ?)": {at.id, c.Page.File, c.Page.Hash},
		"UPDATE hosts SET stored = stored + 1 WHERE id = ?":   {hostID},
	} {
		if _, err := w.exec(query, args...); err != nil {
			return err
		}
	}
	w.pages[host]++
	counts.Stored++
	counts.Bytes += c.Page.Size
	o.Stored, o.URI, o.PageID = true, at.uri, at.id
	return nil
}

// leaves notes that a URI only redirects to another.
func (w *writer) leaves(r *row) error {
	w.state.Counts.Redirected++
	w.state.Counts.Queued--
	_, err := w.exec("UPDATE uris SET state = ? WHERE id = ?", redirected, r.id)
	return err
}

// links queues those links of a page that are to be fetched, and names the targets of all.
func (w *writer) links(c *change, o *Outcome) error {
	from := source{c.lease.ID, o.URI}
	if o.Stored {
		from.id = o.PageID
	}
	for _, l := range c.Links {
		e := Edge{To: l.URI, Link: l}
		key := w.key(l.URI)
		r, err := w.row(key)
		if err != nil {
			return err
		}
		switch depth := c.lease.Depth + 1; {
		case r == nil && l.Queue && w.tooDeep(c):
			w.state.Counts.Skipped["depth"]++
		case r == nil && l.Queue:
			if r, err = w.insert(key, Target{l.URI, l.Host}, depth, from); err != nil {
				return err
			}
		case r != nil && (r.state == queued || r.state == waiting) && depth < r.depth && l.Queue:
			if err := w.lower(key, r, l.Host, depth, from); err != nil {
				return err
			}
		}
		if r != nil {
			e.To = r.uri
		}
		o.Edges = append(o.Edges, e)
	}
	w.state.Counts.Edges += int64(len(o.Edges))
	return nil
}

// insert makes the row of a link that is new to the crawl.
func (w *writer) insert(key Key, t Target, depth int, from source) (*row, error) {
	state := queued
	if isNew, asked := w.fresh[key]; asked && !isNew {
		if w.f.opt.Shared {
			state = elsewhere
			w.state.Counts.Elsewhere++
		} else {
			w.state.Counts.FalsePositives++
		}
	}
	if state == queued {
		w.state.Counts.Queued++
	}
	return w.add(key, t, depth, from, state)
}

// lower notes that a URI was found nearer to a seed.
func (w *writer) lower(key Key, r *row, host string, depth int, from source) error {
	_, err := w.exec("UPDATE uris SET depth = ?, referrer = ? WHERE id = ?", depth, from.id, r.id)
	w.lowered = append(w.lowered, &Entry{ID: r.id, Key: key, Host: host})
	return err
}
