// Package proxies hands out the proxies of a list in rotation, and skips those that fail
// for a while. It calls none of them: the user of a proxy reports how it went.
package proxies

import (
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"
)

// How long a failing proxy is skipped: first, then twice as long each time, up to longest.
const (
	First   = 10 * time.Second
	Longest = 10 * time.Minute
)

// Schemes are the schemes of proxies: socks5 gets addresses that were resolved here, socks5h gets names.
func Schemes() []string { return []string{"http", "https", "socks5", "socks5h"} }

// Parse reads the URI of a proxy, such as socks5://user:password@proxy.example:1080.
func Parse(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("proxy: no URI") // its error would show the password
	case !slices.Contains(Schemes(), u.Scheme):
		return nil, fmt.Errorf("proxy %s: the scheme is %q, want one of %v", u.Redacted(), u.Scheme, Schemes())
	case u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("proxy %s: want scheme://user:password@host:port and nothing else", u.Redacted())
	}
	if u.Path = ""; u.Port() == "" {
		port := map[string]string{"http": "80", "https": "443"}[u.Scheme]
		if port == "" {
			port = "1080"
		}
		u.Host += ":" + port
	}
	return u, nil
}

// NoneError is the error while all proxies of a list are skipped.
type NoneError struct {
	Until time.Time // when the next one is tried again
	Last  error     // why the last one failed
}

func (e *NoneError) Error() string {
	return fmt.Sprintf("all proxies failed, the last one with: %v; tried again from %s", e.Last, e.Until.UTC().Format(time.RFC3339))
}

// List is a list of proxies. Its methods may be called by several goroutines.
type List struct {
	now func() time.Time

	mu   sync.Mutex // guards the fields below, and the fields of the proxies
	all  []*Proxy
	next int
}

// Proxy is a proxy of a list.
type Proxy struct {
	URL *url.URL // must not be changed

	list  *List
	fails int       // in a row
	until time.Time // skipped until then
	tried bool      // it was handed out after a failure, and the outcome is not known yet
	last  error
}

// New makes a list of the URIs of proxies, at least one. A proxy that is listed twice gets twice
// the share. now is the time; nil: time.Now.
func New(uris []string, now func() time.Time) (*List, error) {
	if now == nil {
		now = time.Now
	}
	l := &List{now: now}
	for _, text := range uris {
		u, err := Parse(text)
		if err != nil {
			return nil, err
		}
		l.all = append(l.all, &Proxy{URL: u, list: l})
	}
	if len(l.all) == 0 {
		return nil, fmt.Errorf("proxies: the list is empty")
	}
	return l, nil
}

// Next returns the next proxy that is not skipped. A proxy whose time is over is handed out
// once, and then skipped until that try is known to have succeeded. While all are skipped,
// the error is a *NoneError.
func (l *List) Next() (*Proxy, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	soonest := l.all[l.next]
	for i := range l.all {
		n := (l.next + i) % len(l.all)
		p := l.all[n]
		if p.until.After(now) {
			if p.until.Before(soonest.until) {
				soonest = p
			}
			continue
		}
		if p.fails > 0 {
			p.until, p.tried = now.Add(pause(p.fails)), true
		}
		l.next = (n + 1) % len(l.all)
		return p, nil
	}
	return nil, &NoneError{soonest.until, soonest.last}
}

// Healthy is how many proxies are not skipped at present.
func (l *List) Healthy() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n, now := 0, l.now()
	for _, p := range l.all {
		if !p.until.After(now) {
			n++
		}
	}
	return n
}

// Failed reports that the proxy could not be used. It is skipped for longer each time;
// requests that were under way when it failed count once.
func (p *Proxy) Failed(err error) {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	p.last = err
	now := p.list.now()
	if p.fails > 0 && p.until.After(now) && !p.tried {
		return
	}
	p.fails++
	p.until, p.tried = now.Add(pause(p.fails)), false
}

// Worked reports that the proxy could be used.
func (p *Proxy) Worked() {
	p.list.mu.Lock()
	defer p.list.mu.Unlock()
	p.fails, p.until, p.tried, p.last = 0, time.Time{}, false, nil
}

// String is the URI without the password.
func (p *Proxy) String() string { return p.URL.Redacted() }

func pause(fails int) time.Duration { return min(First<<min(fails-1, 20), Longest) }
