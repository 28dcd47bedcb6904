package robots

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Bounds of a Cache.
const (
	Fresh        = 24 * time.Hour   // how long a file is used at most (RFC 9309, 2.4)
	Unreachable  = 10 * time.Minute // how long all is forbidden if no file was available
	MaxRedirects = 5                // that a Fetch must follow (RFC 9309, 2.3.1.2)
)

// Answer is the answer to a request for a robots.txt.
type Answer struct {
	Status int    // of HTTP; 0: no answer
	Text   []byte // the first MaxBytes are enough
}

// Fetch fetches the robots.txt of an origin, such as https://example.com, and follows MaxRedirects; an answer
// that redirects further counts as status 404. An error counts as no answer, unless it is a *[Withheld].
type Fetch func(ctx context.Context, origin string) (Answer, error)

// Withheld is the error of a Fetch that gave up before the origin had answered: it says nothing
// about the origin. Nothing is remembered, and all callers that waited for this fetch get Err.
type Withheld struct{ Err error }

func (w *Withheld) Error() string { return w.Err.Error() }
func (w *Withheld) Unwrap() error { return w.Err }

// Cache keeps the rules of many origins for one agent. Its methods may be called by several
// goroutines; callers that ask for the same origin share one fetch.
type Cache struct {
	agent string
	limit int
	now   func() time.Time

	mu      sync.Mutex // guards the fields below
	entries map[string]*list.Element
	order   *list.List // of *entry, the most recently used one first
	bytes   int
}

type entry struct {
	origin string
	done   chan struct{} // closed when the fields below are set
	held   error         // why the fetch was not completed; nil: it was
	rules  Rules
	forbid error // why all is forbidden; nil: the rules count
	until  time.Time
	size   int
}

// NewCache makes a Cache of about that many bytes; the least recently used entries are dropped
// first. now is the time; nil: time.Now.
func NewCache(agent string, bytes int, now func() time.Time) *Cache {
	if now == nil {
		now = time.Now
	}
	return &Cache{agent: agent, limit: bytes, now: now, entries: map[string]*list.Element{}, order: list.New()}
}

// Verdict is what a robots.txt says about one URI.
type Verdict struct {
	Allowed     bool
	Unreachable error         // why no robots.txt was available, which forbids everything for a while; nil: it was
	Delay       time.Duration // Crawl-delay, 0: none
	Fetched     bool          // the origin was called for this answer, by the fetch of this caller
	Waited      bool          // for the fetch of another caller: a turn at the host from before is long over
}

// Unavailable reports whether a status says that the file cannot be had at present (RFC 9309, 2.3.1.4).
func Unavailable(status int) bool {
	return status < 200 || status >= 300 && status < 400 || status >= 500
}

// Ask says whether a path with its query may be fetched. If the robots.txt is not known, one of the callers that
// ask for it fetches it. A status of 400 to 499 allows everything, other
// failures forbid everything for a while (RFC 9309, 2.3.1). The error is that of ctx, or of a *[Withheld].
func (c *Cache) Ask(ctx context.Context, origin, path string, fetch Fetch) (Verdict, error) {
	for fetched, waited := false, false; ; {
		e, mine := c.entry(origin)
		if mine {
			c.fill(ctx, e, fetch)
			fetched = true
		}
		select {
		case <-e.done:
		default:
			waited = true
			select {
			case <-e.done:
			case <-ctx.Done():
				return Verdict{}, ctx.Err()
			}
		}
		switch {
		case e.held != nil:
			return Verdict{}, e.held
		case !e.until.IsZero():
			return Verdict{Allowed: e.forbid == nil && e.rules.Allowed(path), Unreachable: e.forbid, Delay: e.rules.Delay(), Fetched: fetched, Waited: waited}, nil
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		}
		// The caller that fetched it was canceled: ask again.
	}
}

// entry returns the entry of an origin, and whether the caller must fill it.
func (c *Cache) entry(origin string) (*entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at := c.entries[origin]; at != nil {
		e := at.Value.(*entry)
		select {
		case <-e.done:
			if c.now().Before(e.until) {
				c.order.MoveToFront(at)
				return e, false
			}
			c.remove(at)
		default:
			return e, false // another caller is fetching
		}
	}
	e := &entry{origin: origin, done: make(chan struct{}), size: 256 + len(origin)}
	c.entries[origin] = c.order.PushFront(e)
	c.bytes += e.size
	return e, true
}

// remove drops an entry; c.mu is held.
func (c *Cache) remove(at *list.Element) {
	e := at.Value.(*entry)
	if c.entries[e.origin] == at {
		delete(c.entries, e.origin)
		c.order.Remove(at)
		c.bytes -= e.size
	}
}

// fill fetches. If it is canceled or withheld, or panics, the entry gets no expiry and is not kept.
func (c *Cache) fill(ctx context.Context, e *entry, fetch Fetch) {
	var answer Answer
	var err error
	fetched := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		defer close(e.done)
		if !fetched { // the others ask again
			c.remove(c.entries[e.origin])
			return
		}
		c.keep(ctx, e, answer, err)
	}()
	answer, err = fetch(ctx, e.origin)
	fetched = true
}

// keep notes what a fetch has found; c.mu is held.
func (c *Cache) keep(ctx context.Context, e *entry, answer Answer, err error) {
	now := c.now()
	withheld := (*Withheld)(nil)
	switch {
	case errors.As(err, &withheld):
		e.held = withheld.Err
		c.remove(c.entries[e.origin])
		return
	case err != nil && ctx.Err() != nil:
		c.remove(c.entries[e.origin])
		return
	case err == nil && answer.Status >= 200 && answer.Status < 300:
		e.rules, e.until = Parse(answer.Text).For(c.agent), now.Add(Fresh)
	case err == nil && answer.Status >= 400 && answer.Status < 500:
		e.until = now.Add(Fresh)
	case err == nil:
		e.forbid, e.until = fmt.Errorf("it was answered with status %d", answer.Status), now.Add(Unreachable)
	default:
		e.forbid, e.until = err, now.Add(Unreachable)
	}
	grown := 0
	for _, r := range e.rules.rules {
		grown += 24 + len(r.pattern)
	}
	e.size += grown
	c.bytes += grown
	for at := c.order.Back(); at != nil && c.bytes > c.limit; {
		before := at.Prev()
		if done := at.Value.(*entry); done != e && !done.until.IsZero() {
			c.remove(at)
		}
		at = before
	}
}

// Held is roughly how many bytes the cache holds, and of how many origins.
func (c *Cache) Held() (bytes, origins int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, len(c.entries)
}
