// Package clienttest is a urifilter in memory, for the tests of programs that use
// package client. It keeps exact sets instead of Bloom filters, so that its answers are
// certain, and it is strict: a request that no correct client would send fails the test.
// It does not persist anything, and compares JSON items by their compact text, whereas
// the daemon compares canonical values.
package clienttest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a daemon for one test. Its methods may be called from any goroutine.
type Server struct {
	URL string

	t    testing.TB
	http *httptest.Server

	mu        sync.Mutex
	token     string
	intercept func(w http.ResponseWriter, r *http.Request) bool
	filters   map[string]*filter
	requests  []string
	conns     map[string]bool
	ahead     time.Duration // of the real clock
	highestID int           // of a filter, whether given by the server or chosen by the caller
}

type filter struct {
	id          int
	capacity    uint64
	errorRate   float64
	onFull      string
	kind        string
	featureHash string              // of kind simhash
	expire      time.Duration       // of kind timing; 0: each call must give it
	seen        map[key]time.Time   // until when; zero: forever
	texts       map[string][]string // of kind simhash: ids by fingerprint, in their order

	held         map[key]hold
	reservations map[string]map[key]string // outcomes of their items

	generation int
}

// has reports whether k is a duplicate at that time. The caller holds mu.
func (f *filter) has(k key, now time.Time) bool {
	until, ok := f.seen[k]
	return ok && (until.IsZero() || now.Before(until))
}

// NewServer starts a server with the default filters (uri, ip, uri_generator,
// uri_download, uri_parse) that ends with the test.
func NewServer(t testing.TB) *Server {
	s := &Server{t: t, filters: map[string]*filter{}, conns: map[string]bool{}, highestID: 999}
	for i, name := range []string{"uri", "ip", "uri_generator", "uri_download", "uri_parse"} {
		s.filters[name] = newFilter(i+1, 10_000_000, 0.0001, "warn")
	}
	s.http = httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = s.http.URL
	t.Cleanup(s.http.Close)
	return s
}

// key is the value by which items are compared. 1 and "1" have the same text but differ.
type key struct {
	text     string
	isString bool
}

func newFilter(id int, capacity uint64, rate float64, onFull string) *filter {
	return &filter{id: id, kind: "bloom", capacity: capacity, errorRate: rate, onFull: onFull, seen: map[key]time.Time{}, held: map[key]hold{}, reservations: map[string]map[key]string{}, texts: map[string][]string{}, generation: 1}
}

// RequireToken makes every call except /readyz answer 401 without this token.
func (s *Server) RequireToken(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Intercept lets f see every request first. If f returns true, it has answered the request,
// and the server does not. A nil f ends it.
func (s *Server) Intercept(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = f
}

// Items returns the number of items that the filter remembers, and whether the string item
// is one of them.
func (s *Server) Items(name, item string) (count int, has bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.filters[name]
	if f == nil {
		s.t.Errorf("clienttest: no filter %q", name)
		return 0, false
	}
	_, has = f.seen[key{item, true}]
	return len(f.seen), has
}

// Advance moves the server's clock forward, by which items of timing filters expire.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
}

// now returns the time of the server's clock. The caller holds mu.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// Requests returns "METHOD URI" of each request so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Connections returns how many connections have brought requests.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}

// Stop closes the server as a crash would: connections are cut.
func (s *Server) Stop() {
	s.http.Listener.Close()
	s.http.CloseClientConnections()
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	s.conns[r.RemoteAddr] = true
	intercept := s.intercept
	s.mu.Unlock()
	if intercept == nil || !intercept(w, r) {
		s.Handle(w, r)
	}
}

// Handle answers as the server would. It is for the functions given to Intercept, and for the
// test's own servers.
func (s *Server) Handle(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	if r.URL.Path == "/readyz" {
		fmt.Fprintln(w, "ok")
		return
	}
	if token != "" && r.Header.Get("Authorization") != "Bearer "+token {
		w.Header().Set("WWW-Authenticate", "Bearer")
		Problem(w, http.StatusUnauthorized, "unauthorized", "a token is needed", nil)
		return
	}
	name, isFilter := strings.CutPrefix(r.URL.Path, "/api/v1/filters/")
	cleared, isClear := strings.CutSuffix(name, "/clear")
	switch {
	case r.Method == http.MethodPost && (r.URL.Path == "/api/v1/filter" || r.URL.Path == "/api/v1/check"):
		s.batch(w, r, r.URL.Path == "/api/v1/filter")
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/forget":
		s.withList(w, r, s.forget)
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/reserve":
		s.withList(w, r, s.reserve)
	case r.Method == http.MethodPost && (r.URL.Path == "/api/v1/commit" || r.URL.Path == "/api/v1/release"):
		s.withList(w, r, func(w http.ResponseWriter, l *list, f *filter) {
			s.settle(w, l, f, strings.TrimPrefix(r.URL.Path, "/api/v1/"))
		})
	case r.Method == http.MethodPost && r.URL.Path == "/api/v1/near":
		s.near(w, r)
	case r.Method == http.MethodGet && r.URL.Path == "/api/v1/filters":
		s.list(w)
	case isFilter && isClear && r.Method == http.MethodPost:
		s.clear(w, r, cleared)
	case isFilter && r.Method == http.MethodGet:
		s.show(w, name, http.StatusOK)
	case isFilter && r.Method == http.MethodPut:
		s.create(w, r, name)
	case isFilter && r.Method == http.MethodDelete:
		s.drop(w, r, name)
	default:
		s.unexpected(w, "%s %s", r.Method, r.URL.RequestURI())
	}
}

// unexpected fails the test, because no correct client sends this.
func (s *Server) unexpected(w http.ResponseWriter, format string, args ...any) {
	s.t.Errorf("clienttest: unexpected request: "+format, args...)
	Problem(w, http.StatusBadRequest, "unexpected", fmt.Sprintf(format, args...), nil)
}

// Problem answers with an error as the daemon does.
func Problem(w http.ResponseWriter, status int, code, detail string, more map[string]any) {
	body := map[string]any{"type": "about:blank", "title": http.StatusText(status), "status": status, "error_code": code, "detail": detail}
	for k, v := range more {
		body[k] = v
	}
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	json.NewEncoder(w).Encode(body)
}

// lookup finds a filter by name or id. The caller holds mu.
func (s *Server) lookup(w http.ResponseWriter, ref string) *filter {
	if f := s.filters[ref]; f != nil {
		return f
	}
	known := make([]string, 0, len(s.filters))
	for name, f := range s.filters {
		if strconv.Itoa(f.id) == ref {
			return f
		}
		known = append(known, name)
	}
	sort.Strings(known)
	Problem(w, http.StatusNotFound, "unknown_filter", fmt.Sprintf("filter %q: unknown", ref), map[string]any{"known": known})
	return nil
}

func reply(w http.ResponseWriter, status int, body any) {
	b, err := json.Marshal(body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(bytes.TrimSpace(b))
}
