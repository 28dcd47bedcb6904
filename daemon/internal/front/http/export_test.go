package http

import (
	"maps"
	"net/http"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/front/http/status"
	"github.com/cr-clawer/urifilter/daemon/internal/program/budget"
)

// Internals for the tests of package api_test.
const (
	AnonymousBody = anonymousBody
	AnonymousHeld = anonymousHeld
	AnonymousRead = anonymousRead
	FirstRead     = firstRead
	SpecBytes     = specBytes
)

// Routes returns the served paths with their methods, except pages for people and aliases of other paths.
func (s *Server) Routes() map[string][]string {
	routes := map[string][]string{}
	for key, route := range s.routes {
		if key != pathUnknown && key != pathPages && key != pathOldFilter+"/" {
			routes[route.path] = slices.Collect(maps.Keys(route.actions))
		}
	}
	return routes
}

// SendOut sends an answer of n bytes to a body as long, and returns how many bytes of that body were still kept then.
func (s *Server) SendOut(w http.ResponseWriter, r *http.Request, n int) (kept int) {
	c := new(call)
	c.begin(s, w, r, false)
	c.buf, c.out = make([]byte, n), make([]byte, n)
	if !c.hold(int64(n)) {
		panic("no room for the body")
	}
	defer c.end()
	_ = c.sendOut(s.header.json)
	return cap(c.buf)
}

// Status is the page for people.
func (s *Server) Status() *status.Status { return s.status }

// TakeAnonymous takes n bytes of the memory for bodies that come without a header.
func (s *Server) TakeAnonymous(n int64) (give func(), ok bool) {
	return func() { s.anonymous.Give(budget.Holder{}, n) }, s.anonymous.Take(budget.Holder{}, n, 0)
}

// HeldAnonymous returns what bodies that come without a header hold.
func (s *Server) HeldAnonymous() int64 { return s.anonymous.Used() }
