package crawl

import (
	"errors"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/robots"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

// longestAway is the longest pause between two tries at a host that cannot be had.
const longestAway = 2 * time.Minute

// away counts the tries in a row at origins that could not be had: no connection, or no robots.txt. Such
// a try says nothing about its URI, and is no attempt at it; nor about other ports of the host.
type away struct {
	mu     sync.Mutex
	tries  map[string]try
	gaveUp map[string]bool
}

type try struct {
	n     int
	until time.Time // the origin is left alone until then
}

// postponed is a try at a host that could not be had.
type postponed struct {
	pause time.Duration
	last  bool // the crawl may end without the host
	text  string
}

// failed counts a try at an origin, of which there may be so many in a row.
func (a *away) failed(origin, text string, told time.Duration, limit int) *postponed {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.tries == nil {
		a.tries, a.gaveUp = map[string]try{}, map[string]bool{}
	}
	before, now := a.tries[origin], time.Now()
	if left := before.until.Sub(now); left > 0 { // it began before the origin was left alone
		return &postponed{left, a.gaveUp[origin], text}
	}
	p := &postponed{pause: min(firstPause<<min(before.n, 20), longestAway), text: text}
	if p.last = before.n+1 >= limit; p.last {
		a.gaveUp[origin] = true
		p.pause = robots.Unreachable
	}
	p.pause = min(max(p.pause, told), frontier.LongestPause)
	a.tries[origin] = try{before.n + 1, now.Add(p.pause)}
	return p
}

// reached notes that an origin has answered.
func (a *away) reached(origin string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.tries, origin)
	delete(a.gaveUp, origin)
}

// hosts is how many hosts were given up, on some port.
func (a *away) hosts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.gaveUp)
}

// tries is how many times in a row a host is tried before the crawl may end without it.
func (c *Crawl) tries() int { return 2 * c.Setting.Attempts }

// unreached returns what is to be done after an error that is one of the origin of a lease, and not of its URI; nil
// for other errors. Where a redirect leads, and for a certificate, that would not help.
func (c *Crawl) unreached(l *frontier.Lease, err error) *postponed {
	var no *unavailable
	if errors.As(err, &no) {
		if no.after > 0 {
			c.frontier.Hold(no.at.Name(), no.after)
		}
		if no.at.Origin() != l.Origin() {
			return nil
		}
		return c.away.failed(l.Origin(), no.Error(), no.after, c.tries())
	}
	var wrong *fetch.Error
	if !errors.As(err, &wrong) || wrong.Permanent {
		return nil
	}
	switch wrong.Reason {
	case fetch.Connect, fetch.TimeoutConnect, fetch.DNS:
	default:
		return nil
	}
	if at, err := uri.Parse(wrong.URI); err != nil || at.Origin() != l.Origin() {
		return nil
	}
	return c.away.failed(l.Origin(), string(wrong.Reason)+": "+wrong.Error(), wrong.After, c.tries())
}

// unavailable is for a robots.txt that cannot be had at present, which forbids everything.
type unavailable struct {
	at    *uri.URI      // of its origin
	after time.Duration // before that another try is useless; 0: not known
	err   error
}

func (u *unavailable) Error() string {
	return "robots_unreachable: robots.txt of the host cannot be fetched, which forbids everything for a while: " + u.err.Error()
}
func (u *unavailable) Unwrap() error { return u.err }
