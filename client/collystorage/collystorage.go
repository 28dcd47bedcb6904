// Package collystorage lets collectors of github.com/gocolly/colly, in any number of
// processes, ask a urifilter daemon which requests are new:
//
//	c := colly.NewCollector()
//	err := c.SetStorage(collystorage.New(client, "my_crawl"))
//
// The item is colly's request id, a 64-bit FNV-1a hash of URL and body, in decimal: among
// n requests about n²/2⁶⁵ pairs share an id (0.03 pairs for a billion). The filter's own
// false positives add to that.
//
// Cookies stay in this process, because they belong to a session. This is a separate module,
// so that the client has no dependencies.
package collystorage

import (
	"context"
	"errors"
	"fmt"
	"net/http/cookiejar"
	"net/url"
	"strconv"
	"sync"

	"github.com/gocolly/colly/v2/storage"

	"github.com/cr-clawer/urifilter/client"
)

// ErrTaken is what a collector's Visit returns for a request that another collector, or
// another goroutine, began between colly's two calls for it, IsVisited and Visited.
// Treat it as a *colly.AlreadyVisitedError.
var ErrTaken = errors.New("request was begun elsewhere at the same moment")

// maxKnown bounds the number of ids remembered in this process, about 20 MB.
const maxKnown = 1 << 19

// Storage is a storage.Storage of colly. It is safe for concurrent use.
type Storage struct {
	client *client.Client
	typ    string

	mu    sync.Mutex
	known map[uint64]struct{} // certainly visited, so there is no need to ask
	asked map[uint64]int      // how often IsVisited said "new" with no Visited since
	jar   *cookiejar.Jar
}

var _ storage.Storage = (*Storage)(nil)

// New makes a Storage over the filter typ (its name, or its id in decimal), which must
// exist when the first request is made. The client sets the time limits and what happens while
// the daemon is down: with [client.WithPatience] a crawl waits for it, and when that time is
// over, Visit fails and nothing was fetched.
//
// Over a network, each request that this process has not seen before takes one round trip to
// the daemon, and another to remember it.
func New(c *client.Client, typ string) *Storage { return &Storage{client: c, typ: typ} }

// Init is called by colly's SetStorage. It makes the cookie jar and asks nothing.
func (s *Storage) Init() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jar != nil {
		return nil
	}
	var err error
	s.known, s.asked = map[uint64]struct{}{}, map[uint64]int{}
	s.jar, err = cookiejar.New(nil)
	return err
}

// IsVisited reports whether a request was made before, and remembers nothing.
func (s *Storage) IsVisited(requestID uint64) (bool, error) {
	if s.knows(requestID) {
		return true, nil
	}
	verdicts, err := s.client.Check(context.Background(), s.typ, []string{item(requestID)})
	if err != nil {
		return false, fmt.Errorf("urifilter: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if verdicts[0] {
		put(s.asked, requestID, s.asked[requestID]+1)
	} else {
		put(s.known, requestID, struct{}{})
	}
	return !verdicts[0], nil
}

// Visited remembers a request. The daemon tests and sets atomically: if several callers were
// told that it is new, only one gets nil, and the others ErrTaken. It also returns nil for a
// request that IsVisited has called visited, because colly follows a redirect to such a page
// if the first request was made without a check.
func (s *Storage) Visited(requestID uint64) error {
	if s.follows(requestID) {
		return nil
	}
	fresh, err := s.client.Filter(context.Background(), s.typ, []string{item(requestID)})
	if err != nil {
		return fmt.Errorf("urifilter: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	put(s.known, requestID, struct{}{})
	if len(fresh) == 0 {
		return ErrTaken
	}
	return nil
}

func item(requestID uint64) string { return strconv.FormatUint(requestID, 10) }

func (s *Storage) knows(requestID uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.known[requestID]
	return ok
}

// follows reports that no caller in this process was told that the request is new, so that
// Visited can only follow the answer that it is not.
func (s *Storage) follows(requestID uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch n := s.asked[requestID]; {
	case n == 1:
		delete(s.asked, requestID)
		return false
	case n > 1:
		s.asked[requestID] = n - 1
		return false
	}
	_, known := s.known[requestID]
	return known
}

// put keeps m small. The daemon still knows the ids that are dropped here.
func put[V any](m map[uint64]V, id uint64, value V) {
	if len(m) >= maxKnown {
		clear(m)
	}
	m[id] = value
}

// Cookies returns the cookies for u, in colly's form.
func (s *Storage) Cookies(u *url.URL) string {
	return storage.StringifyCookies(s.jar.Cookies(u))
}

// SetCookies keeps cookies for u, in this process.
func (s *Storage) SetCookies(u *url.URL, cookies string) {
	all := storage.UnstringifyCookies(cookies)
	s.jar.SetCookies(u, all)
}
