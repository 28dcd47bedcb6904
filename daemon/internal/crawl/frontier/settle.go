package frontier

import (
	"context"
	"time"
)

// Result is the outcome of a lease: a page, a failure, or neither, which is a redirect to something
// that is not stored again.
type Result struct {
	Page      *Page
	Failure   *Failure
	Redirects []Target // in order; the page belongs to the last one
	Links     []Link   // of the page, in page order
	Skipped   map[string]int64
}

// Page is a page that is already durable.
type Page struct {
	File string // where it is
	Hash []byte // of its content
	Size int64
	Data any // for the outputs
}

// Target is where a redirect leads.
type Target struct{ URI, Host string }

// Link is a link of a page.
type Link struct {
	URI, Host string
	Queue     bool // to be fetched; otherwise it is only an edge
	Data      any  // for the outputs
}

// Failure says why there is no page.
type Failure struct {
	Reason    string // a word, which is counted
	Text      string
	Permanent bool          // another attempt would be useless
	After     time.Duration // before the next attempt
	Data      any           // for the outputs
}

// Outcome is the outcome of a lease, for the outputs.
type Outcome struct {
	Entry
	Result
	Stored   bool
	Final    bool   // there is no further attempt
	URI      string // of the page, as first spelled; without a page, of the entry
	PageID   int64
	Original string // the first other page with the same content; "": none
	Edges    []Edge
	Time     time.Time
}

// Edge is a link of a page, with its target as first spelled.
type Edge struct {
	To string
	Link
}

// change is what one thread wants to commit.
type change struct {
	lease *Lease // nil: only until when hosts are to be left alone
	Result
	done chan settled
}

type settled struct {
	o   *Outcome
	err error
}

// Settle ends a lease, and returns when the outcome is durable. An error ends the frontier.
func (f *Frontier) Settle(l *Lease, r Result) (*Outcome, error) {
	s := f.change(l, r)
	return s.o, s.err
}

// change has the writer commit a change, and waits for that.
func (f *Frontier) change(l *Lease, r Result) settled {
	c := &change{l, r, make(chan settled, 1)}
	f.changes <- c
	return <-c.done
}

// RetryFailed queues all URIs that have failed, as if they had never been tried. It must be called before Start.
func (f *Frontier) RetryFailed(ctx context.Context) error {
	w, err := f.begin()
	if err != nil {
		return err
	}
	defer w.rollback()
	result, err := w.exec("UPDATE uris SET state = ?, attempts = 0, not_before = 0, reason = '' WHERE state = ?", queued, failed)
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err != nil {
		return err
	}
	next := f.state
	next.Counts.Failed -= n
	next.Counts.Queued += n
	next.Counts.Reasons = map[string]int64{}
	if err := w.saveState(next); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	f.state = next
	return nil
}

// Begin makes the crawl of a folder: its setting and its seeds, all or nothing.
func (f *Frontier) Begin(ctx context.Context, setting []byte, seeds []Target, o Options) error {
	f.opt = o
	w, err := f.begin()
	if err != nil {
		return err
	}
	defer w.rollback()
	for _, seed := range seeds {
		key := f.keyLocked(seed.URI)
		row, err := w.row(key)
		if err != nil {
			return err
		}
		if row == nil {
			if _, err := w.add(key, seed, 0, source{}, queued); err != nil {
				return err
			}
		}
	}
	f.state.Counts.Queued = int64(len(w.added))
	if err := w.saveState(f.state); err != nil {
		return err
	}
	if err := f.setMeta(ctx, "setting", setting); err != nil {
		return err
	}
	if err := w.commit(); err != nil {
		return err
	}
	f.setting = setting
	return nil
}
