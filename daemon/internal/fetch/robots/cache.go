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
	Fresh        = 24 * time.Hour   // a file is used for so long at most (RFC 9309, 2.4)
	Unreachable  = 10 * time.Minute // for which all is forbidden where no file could be had
	MaxRedirects = 5                // that a Fetch follows at least (RFC 9309, 2.3.1.2)
)

// Answer is what came of asking for a robots.txt.
type Answer struct {
	Status int    // of HTTP; 0: there was no answer
	Text   []byte // the first MaxBytes are enough
}

// Fetch asks for the robots.txt of an origin, such as https://example.com, and follows MaxRedirects;
// an answer that leads further has status 404. An error counts as no answer, unless it is a *[Withheld].
type Fetch func(ctx context.Context, origin string) (Answer, error)

// Withheld is the error of a Fetch that gave up by itself before the origin had answered: it says nothing
// of the origin. Nothing is remembered, and all who waited for this fetch get Err.
type Withheld struct{ Err error }

func (w *Withheld) Error() string { return w.Err.Error() }
func (w *Withheld) Unwrap() error { return w.Err }

// Cache keeps the rules of many origins for one agent. Its methods may be called by several
// goroutines; those that ask for the same origin wait for one fetch.
type Cache struct {
	agent string
	fetch Fetch
	most  int
	now   func() time.Time

	mu      sync.Mutex // guards what follows
	entries map[string]*list.Element
	order   *list.List // of *entry, the one that was used last first
	bytes   int
}

type entry struct {
	origin string
	done   chan struct{} // closed when what follows is set
	held   error         // why it was not asked for to the end; nil: it was
	rules  Rules
	forbid error // why all of it is; nil: the rules count
	until  time.Time
	size   int
}

// NewCache makes a Cache of about that many bytes; what was used longest ago goes first. now is the
// time; nil: time.Now.
func NewCache(agent string, bytes int, fetch Fetch, now func() time.Time) *Cache {
	if now == nil {
		now = time.Now
	}
	return &Cache{agent: agent, fetch: fetch, most: bytes, now: now, entries: map[string]*list.Element{}, order: list.New()}
}

// Verdict is what a robots.txt says of one URI.
type Verdict struct {
	Allowed     bool
	Unreachable error         // why no robots.txt could be had, which forbids everything for a while; nil: it was
	Delay       time.Duration // Crawl-delay, 0: none
}

// Ask says whether a path with its query may be fetched. A status of 400 to 499 allows everything, other
// failures forbid everything for a while (RFC 9309, 2.3.1). The error is that of ctx, or of a *[Withheld].
func (c *Cache) Ask(ctx context.Context, origin, path string) (Verdict, error) {
	for {
		e, mine := c.entry(origin)
		if mine {
			c.fill(ctx, e)
		}
		select {
		case <-e.done:
		case <-ctx.Done():
			return Verdict{}, ctx.Err()
		}
		switch {
		case e.held != nil:
			return Verdict{}, e.held
		case !e.until.IsZero():
			return Verdict{Allowed: e.forbid == nil && e.rules.Allowed(path), Unreachable: e.forbid, Delay: e.rules.Delay()}, nil
		case ctx.Err() != nil:
			return Verdict{}, ctx.Err()
		}
		// Who fetched it was canceled: ask again.
	}
}

// entry is that of an origin, and whether the caller is to fill it.
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
			return e, false // somebody is asking
		}
	}
	e := &entry{origin: origin, done: make(chan struct{}), size: 256 + len(origin)}
	c.entries[origin] = c.order.PushFront(e)
	c.bytes += e.size
	return e, true
}

// remove lets go of an entry; c.mu is held.
func (c *Cache) remove(at *list.Element) {
	e := at.Value.(*entry)
	if c.entries[e.origin] == at {
		delete(c.entries, e.origin)
		c.order.Remove(at)
		c.bytes -= e.size
	}
}

// fill fetches. What was canceled or withheld stays without an end, and is not kept.
func (c *Cache) fill(ctx context.Context, e *entry) {
	answer, err := c.fetch(ctx, e.origin)
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(e.done)
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
	for at := c.order.Back(); at != nil && c.bytes > c.most; {
		before := at.Prev()
		if done := at.Value.(*entry); done != e && !done.until.IsZero() {
			c.remove(at)
		}
		at = before
	}
}

// Held is about how many bytes the cache holds, and of how many origins.
func (c *Cache) Held() (bytes, origins int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bytes, len(c.entries)
}
