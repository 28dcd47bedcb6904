package crawl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/publicsuffix"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/crawl/form"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/canonical"
)

// Setting says how to crawl. It is saved in the folder, so that the crawl continues as it began.
type Setting struct {
	Seeds    []string `json:"seeds"`
	MaxPages int64    `json:"max_pages"` // to be stored
	Threads  int      `json:"threads"`   // pages that are fetched at once; with 1 the order is always the same
	Scope    string   `json:"scope"`     // host, domain, prefix or all: which links are followed
	MaxDepth int      `json:"depth"`     // links from a seed; below 0: no bound

	Delay   time.Duration `json:"delay"`    // between two requests to a host, from start to start
	PerHost int           `json:"per_host"` // requests to a host at once; 0: 2, or as many as threads if there is no delay
	Robots  bool          `json:"robots"`   // robots.txt is obeyed
	Contact string        `json:"contact"`  // how to reach the operator: a URL or an address; "": none

	Attempts int           `json:"attempts"`  // at one URI, unless it fails permanently
	Timeout  time.Duration `json:"timeout"`   // of one page, with its redirects
	MaxBytes int64         `json:"max_bytes"` // of one page
	Images   bool          `json:"images"`    // links to images are followed, too

	MaxPerHost  int64 `json:"max_per_host"`  // pages of one host; 0: no bound
	MaxURI      int   `json:"max_uri"`       // bytes of a URI
	MaxSegments int   `json:"max_segments"`  // segments of a path
	MaxRepeated int   `json:"max_repeated"`  // how many times the same segment may be in a path
	Private     bool  `json:"allow_private"` // private and loopback addresses may be called

	FilterURL  string `json:"filter"` // of a urifilter daemon that crawls share; "": a filter in the folder
	FilterType string `json:"type"`   // the filter's name there
	WARC       bool   `json:"warc"`
	Graph      string `json:"graph"` // the format in which the graph is also written at the end, see package graph; "": none

	Login string `json:"login"` // path of a file of steps (package form) that are done at the start; "": none
}

// Default is a setting without seeds.
func Default() Setting {
	return Setting{
		MaxPages: 100, Threads: 4, Scope: "host", MaxDepth: -1, Delay: time.Second, Robots: true, Attempts: 3,
		Timeout: time.Minute, MaxBytes: 32 << 20, MaxURI: 2048, MaxSegments: 32, MaxRepeated: 3, FilterType: "uri",
	}
}

// Scopes are the values of Setting.Scope.
func Scopes() []string { return []string{"host", "domain", "prefix", "all"} }

// Validate returns all faults, each with its flag.
func (s Setting) Validate() error {
	var faults []error
	want := func(ok bool, flag string, value any, text string) {
		if !ok {
			faults = append(faults, fmt.Errorf("--%s %v: want %s", flag, value, text))
		}
	}
	want(s.MaxPages >= 1, "max-pages", s.MaxPages, "1 or more")
	want(s.Threads >= 1 && s.Threads <= 1000, "threads", s.Threads, "1 to 1000")
	want(s.MaxDepth >= -1, "depth", s.MaxDepth, "0 or more, or -1 for no bound")
	want(s.Delay >= 0 && s.Delay <= time.Hour, "delay", s.Delay, "0 to 1h")
	want(s.PerHost >= 0, "per-host", s.PerHost, "0 or more")
	want(s.Attempts >= 1 && s.Attempts <= 20, "attempts", s.Attempts, "1 to 20")
	want(s.Timeout >= time.Second && s.Timeout <= time.Hour, "timeout", s.Timeout, "1s to 1h")
	want(s.MaxBytes >= 1, "max-bytes", s.MaxBytes, "1 or more")
	want(s.MaxPerHost >= 0, "max-per-host", s.MaxPerHost, "0 or more")
	want(s.MaxURI >= 100 && s.MaxURI <= uri.MaxBytes, "max-uri", s.MaxURI, fmt.Sprintf("100 to %d", uri.MaxBytes))
	want(s.MaxSegments >= 1, "max-segments", s.MaxSegments, "1 or more")
	want(s.MaxRepeated >= 1, "max-repeated", s.MaxRepeated, "1 or more")
	want(!strings.ContainsFunc(s.Contact, func(r rune) bool { return r <= ' ' || r > '~' || r == '(' || r == ')' }), "contact", fmt.Sprintf("%q", s.Contact), "a URL or an address, such as https://example.com/crawler or me@example.com")
	want(s.FilterType != "" || s.FilterURL == "", "type", `""`, "the name of a filter of the daemon")
	want(slices.Contains(Scopes(), s.Scope), "scope", fmt.Sprintf("%q", s.Scope), strings.Join(Scopes(), ", "))
	if len(s.Seeds) == 0 {
		faults = append(faults, errors.New("no seed: want one URI or more to begin with"))
	}
	for _, seed := range s.Seeds {
		if !strings.Contains(seed, ":") {
			faults = append(faults, fmt.Errorf("seed %q: want a URI with its scheme, such as https://%s", seed, seed))
		} else if _, err := uri.Parse(seed); err != nil {
			faults = append(faults, fmt.Errorf("seed %q: %w", seed, err))
		}
	}
	return errors.Join(faults...)
}

func (s Setting) marshal() ([]byte, error) { return json.Marshal(s) }

func readSetting(text []byte) (s Setting, err error) {
	s = Default()
	err = json.Unmarshal(text, &s)
	return s, err
}

// perHost is how many requests to a host may run at once.
func (s Setting) perHost() int {
	switch {
	case s.PerHost > 0:
		return s.PerHost
	case s.Delay > 0:
		return 2
	}
	return s.Threads
}

// Agent is how the crawl names itself in each request. An invalid version is left out.
func (s Setting) Agent(version string) string {
	agent := product
	if version != "" && !strings.ContainsAny(version, "() \t") {
		agent += "/" + version
	}
	if s.Contact != "" {
		agent += " (+" + s.Contact + ")"
	}
	return agent
}

// product is the name whose rules in robots.txt count.
const product = "uridownloader"

func rule() canonical.Rule {
	return canonical.Rule{Form: canonical.Crawl, Drop: canonical.NewNames(strings.Split(configs.Tracking, ","))}
}

// scope decides which URIs belong to a crawl. Several goroutines may use it.
type scope struct {
	kind string

	mu       sync.RWMutex    // guards the fields below
	names    map[string]bool // of hosts, or of domains
	prefixes []string
}

func newScope(kind string, seeds []*uri.URI) *scope {
	s := &scope{kind: kind, names: map[string]bool{}}
	for _, u := range seeds {
		switch kind {
		case "host":
			s.names[place(u)] = true
		case "domain":
			s.names[domain(u)] = true
		case "prefix":
			s.prefixes = append(s.prefixes, prefix(u))
		}
	}
	return s
}

// widen takes in the site to which a seed redirects, if it is the same one under its other name: with or
// without www., by the other scheme. It reports whether it is.
func (s *scope) widen(seed, to *uri.URI) bool {
	bare := func(u *uri.URI) string { return strings.TrimPrefix(u.Name(), "www.") }
	usual := func(u *uri.URI) bool { return place(u) == u.Host || place(u) == "["+u.Host+"]" }
	if bare(seed) != bare(to) || !(usual(seed) && usual(to)) && (seed.Port != to.Port || seed.Scheme != to.Scheme) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.kind {
	case "host":
		s.names[place(to)] = true
	case "prefix":
		if there := to.Origin() + strings.TrimPrefix(prefix(seed), seed.Origin()); !slices.Contains(s.prefixes, there) {
			s.prefixes = append(s.prefixes, there)
		}
	}
	return true
}

// place is host and port; http and https with their default ports are the same.
func place(u *uri.URI) string {
	if u.Authority() == u.Host || strings.HasPrefix(u.Authority(), "[") && strings.HasSuffix(u.Authority(), "]") {
		return u.Host
	}
	return u.Authority()
}

// domain is the part that can be registered: example.co.uk of www.example.co.uk. An address is its own domain.
func domain(u *uri.URI) string {
	if u.Addr.IsValid() {
		return u.Host
	}
	if name, err := publicsuffix.EffectiveTLDPlusOne(u.Name()); err == nil {
		return name
	}
	return u.Host
}

// prefix is the folder that contains a seed.
func prefix(u *uri.URI) string {
	path, _, _ := strings.Cut(u.Path, "?")
	return u.Origin() + path[:strings.LastIndexByte(path, '/')+1]
}

func (s *scope) has(u *uri.URI) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	switch s.kind {
	case "host":
		return s.names[place(u)]
	case "domain":
		return s.names[domain(u)]
	case "prefix":
		text := u.String()
		return slices.ContainsFunc(s.prefixes, func(p string) bool { return strings.HasPrefix(text, p) })
	}
	return true
}

// trap says why a URI looks like one that a program generates endlessly, "" if it does not.
func (s Setting) trap(u *uri.URI) string {
	if len(u.String()) > s.MaxURI {
		return "long"
	}
	path, _, _ := strings.Cut(u.Path, "?")
	parts := strings.Split(strings.Trim(path, "/"), "/")
	if len(parts) > s.MaxSegments {
		return "segments"
	}
	if len(parts) <= s.MaxRepeated {
		return ""
	}
	times := make(map[string]int, len(parts))
	for _, part := range parts {
		if times[part]++; times[part] > s.MaxRepeated {
			return "repeated"
		}
	}
	return ""
}

// ReadLogin reads the file of Setting.Login, whose last step must have a check: a crawl that is
// not logged in would store other pages.
func ReadLogin(path string) (*form.File, error) {
	f, err := form.Read(path, os.LookupEnv)
	if err == nil {
		err = f.Checked()
	}
	if err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	return f, nil
}

// login does the steps of the setting's file, with requests as polite as all others of the crawl.
// save saves the cookies of the session.
func (c *Crawl) login(ctx context.Context) (save func() error, err error) {
	if c.Setting.Login == "" {
		return func() error { return nil }, nil
	}
	if c.session, err = ReadLogin(c.Setting.Login); err != nil {
		return nil, err
	}
	if c.jar, save, err = c.session.OpenJar(); err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	last, err := form.Session{Fetch: c.fetchPolitely, Jar: c.jar}.Run(ctx, c.session)
	if err != nil {
		return nil, fmt.Errorf("--login: %w", err)
	}
	c.log.Info("logged in", "uri", last.URI)
	return save, save()
}

// fetchPolitely fetches without a lease: when it is its host's turn, and if robots.txt allows it.
// Both also apply to redirects.
func (c *Crawl) fetchPolitely(ctx context.Context, r fetch.Request) (*fetch.Response, error) {
	ask := func(ctx context.Context, to string) error {
		u, err := uri.Parse(to)
		if err != nil {
			return err
		}
		if err := c.turn(ctx, to); err != nil {
			return err
		}
		return c.allowed(ctx, u)
	}
	if err := ask(ctx, r.URI); err != nil {
		return nil, err
	}
	r.Whole, r.Read = c.Setting.Timeout, min(c.Setting.Timeout, 30*time.Second)
	r.Before, r.Again = ask, c.turn
	return c.fetcher.Fetch(ctx, r)
}
