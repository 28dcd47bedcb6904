// Package cookies keeps the cookies that servers set, separately for each job and site, within bounds
// that no server can exceed. They are in memory; those of a File can be saved for the next process.
package cookies

import (
	"container/list"
	"net/http"
	"net/http/cookiejar"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/net/publicsuffix"
)

const (
	// MaxSites is how many pairs of a job and a site may have cookies; beyond it the least
	// recently used pair is dropped.
	MaxSites = 10_000
	// maxCookies and maxBytes bound what a site can set for a job. If it exceeds them, it
	// starts again without cookies.
	maxCookies = 180
	maxBytes   = 16 << 10
	// maxCookie is the longest cookie, with its name; longer ones are dropped.
	maxCookie = 4 << 10
	// maxAge is the longest Max-Age in seconds, as in browsers. As a time.Duration a longer one may be negative,
	// so that the jar would take the cookie for expired.
	maxAge = 400 * 24 * 60 * 60
)

// Store keeps cookies. It is safe for concurrent use.
type Store struct {
	mu     sync.Mutex
	max    int
	sites  map[key]*list.Element // of *site
	recent *list.List            // the most recently used one first
}

type key struct {
	job  int64
	site string
}

// New makes a Store for so many pairs of a job and a site; 0: MaxSites.
func New(max int) *Store {
	if max <= 0 {
		max = MaxSites
	}
	return &Store{max: max, sites: map[key]*list.Element{}, recent: list.New()}
}

// Jar returns the jar of a job. Jars of the same job share their cookies.
func (s *Store) Jar(job int64) http.CookieJar { return jar{s, job} }

type jar struct {
	store *Store
	job   int64
}

// Cookies implements http.CookieJar.
func (j jar) Cookies(u *url.URL) []*http.Cookie {
	if site := j.store.site(j.job, u, false); site != nil {
		return site.cookies(u)
	}
	return nil
}

// SetCookies implements http.CookieJar.
func (j jar) SetCookies(u *url.URL, cookies []*http.Cookie) {
	if len(cookies) > 0 {
		j.store.site(j.job, u, true).set(u, cookies)
	}
}

// site returns the site of a URL, nil if it has no cookies and create is false.
func (s *Store) site(job int64, u *url.URL, create bool) *site {
	k := key{job, SiteOf(u.Hostname())}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.sites[k]; ok {
		s.recent.MoveToFront(e)
		return e.Value.(*site)
	}
	if !create {
		return nil
	}
	if s.recent.Len() >= s.max {
		oldest := s.recent.Back()
		delete(s.sites, oldest.Value.(*site).key)
		s.recent.Remove(oldest)
	}
	made := &site{key: k}
	s.sites[k] = s.recent.PushFront(made)
	return made
}

// SiteOf is the common name of hosts that can set cookies for each other: a name directly below
// a public suffix (example.co.uk), or the host itself.
func SiteOf(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return host
	}
	if name, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		return name
	}
	return host
}

// site holds the cookies of one job for one site.
type site struct {
	key key

	mu    sync.Mutex
	jar   *cookiejar.Jar
	sizes map[string]int // of all cookies that were kept, by identity
	bytes int            // the sum of sizes, including those of expired ones
}

func (s *site) cookies(u *url.URL) []*http.Cookie {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jar == nil {
		return nil
	}
	return s.jar.Cookies(u)
}

func (s *site) set(u *url.URL, cookies []*http.Cookie) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range cookies {
		id, allowed := identity(u, c)
		size := len(c.Name) + len(c.Value) + len(pathOf(u, c)) + len(c.Domain)
		if !allowed || size > maxCookie {
			continue
		}
		before, known := s.sizes[id] // it is replaced
		if s.jar == nil || !known && len(s.sizes) == maxCookies || s.bytes-before+size > maxBytes {
			s.jar, _ = cookiejar.New(&cookiejar.Options{PublicSuffixList: publicsuffix.List}) // never an error
			s.sizes, s.bytes, before = map[string]int{}, 0, 0
		}
		s.sizes[id] = size
		s.bytes += size - before
		own := *c
		own.MaxAge = min(c.MaxAge, maxAge)
		s.jar.SetCookies(u, []*http.Cookie{&own})
	}
}

// identity is what a cookie shares with the one that it replaces (RFC 6265, 5.3): domain, path and name, whichever host
// of the domain sets it. It is false if the jar refuses the cookie, because the host of the URL is not in that domain.
func identity(u *url.URL, c *http.Cookie) (string, bool) {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	domain := host
	if c.Domain != "" {
		domain = strings.ToLower(strings.TrimPrefix(c.Domain, "."))
	}
	return strings.Join([]string{domain, pathOf(u, c), c.Name}, "\x00"), domain == host || strings.HasSuffix(host, "."+domain)
}

// pathOf is the path below which a cookie of a URL is sent: its own, or the folder of the URL (RFC 6265, 5.1.4).
func pathOf(u *url.URL, c *http.Cookie) string {
	if strings.HasPrefix(c.Path, "/") {
		return c.Path
	}
	if i := strings.LastIndexByte(u.Path, '/'); i > 0 && u.Path[0] == '/' {
		return u.Path[:i]
	}
	return "/"
}
