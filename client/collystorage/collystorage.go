// Package collystorage lets collectors of github.com/gocolly/colly, in any number of
// processes, ask a urifilter daemon which requests are new:
//
//	c := colly.NewCollector()
//	err := c.SetStorage(collystorage.New(client, "my_crawl"))
//
// The item is colly's request id, a 64-bit FNV-1a hash of URL and body, in decimal: among
// n requests about n²/2⁶⁵ pairs share an id (0.03 pairs for a billion). The filter's own
// false positives come on top.
//
// Cookies stay in this process: they are a session, not something seen. A module of its
// own, so that the client has no dependencies.
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
// another goroutine, began between colly's two questions about it: whether it was
// visited, and that it is now. Treat it as a *colly.AlreadyVisitedError.
var ErrTaken = errors.New("request was begun elsewhere at the same moment")

// mostKnown bounds what is remembered in this process: some 20 MB.
const mostKnown = 1 << 19

// Storage is a storage.Storage of colly. It is safe for concurrent use.
type Storage struct {
	client *client.Client
	typ    string

	mu    sync.Mutex
	known map[uint64]struct{} // visited for sure; asking would be a waste
	asked map[uint64]int      // who were told "new" and have not come back to visit
	jar   *cookiejar.Jar
}

var _ storage.Storage = (*Storage)(nil)

// New makes a Storage over the filter typ (its name, or its id in decimal), which must be
// there when the first request is made. Time limits and what happens while the daemon is
// away are the client's: with [client.WithPatience] a crawl waits for it, and when that is
// over Visit fails, and nothing was fetched.
//
// A daemon that is asked over a network takes a round trip for each request that this
// process has not seen before, and another to remember it.
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

// IsVisited tells whether a request was made before, and remembers nothing.
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

// Visited remembers a request. The daemon tests and sets at once, so that of several who
// were told that it is new only one gets nil, and the others ErrTaken. It is nil too for a
// request that IsVisited has called visited: colly follows a redirect to such a page when
// the first request was made without a check.
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

// follows says that nobody in this process was told that the request is new, so that
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

// put keeps m small: what is forgotten, the daemon knows.
func put[V any](m map[uint64]V, id uint64, value V) {
	if len(m) >= mostKnown {
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
