package crawl

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/crawl/frontier"
)

const (
	window     = 10     // seconds over which the rate is measured
	knownHosts = 10_000 // whose times are remembered
	slowest    = 3      // hosts that are named
)

// Progress is the progress of a crawl.
type Progress struct {
	frontier.Counts
	MaxPages int64   `json:"max_pages"`
	Rate     float64 `json:"pages_per_second"` // of the last 10 seconds
	Slowest  []Slow  `json:"slowest_hosts"`
	// Away is how many hosts could not be had since the start, so that the crawl may end without them; their URIs
	// are in the queue.
	Away int `json:"hosts_away"`
	// LastFailure says why the last URI or host since the start was given up.
	LastFailure string `json:"last_failure,omitempty"`
	// LedAway is a redirect of a seed that leads out of the scope.
	LedAway *Redirect `json:"led_away,omitempty"`
}

// Redirect is a redirect from a URI to another.
type Redirect struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Slow is a host, and how long it takes for a page.
type Slow struct {
	Host    string  `json:"host"`
	Seconds float64 `json:"seconds"` // a moving average
}

// Progress may be called while Run runs.
func (c *Crawl) Progress() Progress {
	p := Progress{Counts: c.frontier.Counts(), MaxPages: c.Setting.MaxPages, Away: c.away.hosts()}
	p.Rate, p.Slowest = c.speed.now()
	p.LedAway = c.ledAway.Load()
	if text := c.lastFailure.Load(); text != nil {
		p.LastFailure = *text
	}
	return p
}

// speed has recent measurements. The zero value is ready for use.
type speed struct {
	mu    sync.Mutex
	began time.Time
	pages [window + 1]int // by second, as a ring
	last  int64           // the last second that was counted
	hosts map[string]time.Duration
}

func (s *speed) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.began, s.hosts = time.Now(), map[string]time.Duration{}
}

// advance clears the seconds that have passed. mu is held.
func (s *speed) advance() {
	now := int64(time.Since(s.began) / time.Second)
	for ; s.last < now; s.last++ {
		s.pages[(s.last+1)%int64(len(s.pages))] = 0
		if now-s.last > int64(len(s.pages)) {
			s.last = now - int64(len(s.pages))
		}
	}
}

func (s *speed) stored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.advance()
	s.pages[s.last%int64(len(s.pages))]++
}

func (s *speed) took(host string, d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, known := s.hosts[host]
	switch {
	case known:
		s.hosts[host] = old + (d-old)/8
	case len(s.hosts) < knownHosts:
		s.hosts[host] = d
	}
}

func (s *speed) now() (rate float64, slow []Slow) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.began.IsZero() {
		return 0, nil
	}
	s.advance()
	n := 0
	for _, pages := range s.pages {
		n += pages
	}
	rate = float64(n) / min(max(time.Since(s.began).Seconds(), 0.001), window)
	for host, d := range s.hosts {
		slow = append(slow, Slow{host, d.Seconds()})
	}
	slices.SortFunc(slow, func(a, b Slow) int {
		return cmp.Or(cmp.Compare(b.Seconds, a.Seconds), cmp.Compare(a.Host, b.Host))
	})
	return rate, slices.Clone(slow[:min(len(slow), slowest)])
}
