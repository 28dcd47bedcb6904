package http

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/front/problem"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// expected reports whether a code is logged elsewhere, or need not be logged.
func expected(code string) bool {
	return slices.Contains([]string{problem.NotReady, problem.Overloaded, problem.FilterRestoring, problem.FilterQuarantined, problem.ArchiveUnavailable}, code)
}

// retryAfter is the number of seconds until a retry. After a batch that broke off, the other
// daemons that share the store need one second to learn of it.
func retryAfter(code string) string {
	if code == problem.OutcomeUnknown {
		return "2"
	}
	return "1"
}

// fail answers err. It must not be called once an answer has begun.
func (c *call) fail(err error) {
	if errors.Is(err, context.Canceled) && c.r.Context().Err() != nil {
		c.hangUp(statusClientGone) // the client has left
	}
	f := problem.Of(err)
	entry, ok := c.s.errors[f.Code]
	if !ok {
		f, entry = &problem.Error{Cause: err}, c.s.errors[problem.Internal]
	}
	c.code = entry.Code
	if entry.Status >= 500 && !expected(entry.Code) {
		c.s.log.Error("request failed", "path", c.route.path, "status", entry.Status, "err", err)
	}
	body := problemOf(entry, f)
	h := c.w.Header()
	if f.Header[0] != "" {
		h.Set(f.Header[0], f.Header[1])
	}
	switch entry.Status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter(entry.Code))
	case http.StatusRequestTimeout:
		h.Set("Connection", "close")
	}
	c.send(entry.Status, c.s.header.problem, body)
}

// problemOf returns an error as problem+json.
func problemOf(entry problem.Entry, f *problem.Error) []byte {
	e := *f
	e.Code = entry.Code
	return problemdetail.Encode("urifilter", entry.Status, entry.Title, &e)
}

// Overloaded is the problem in the answer to a refused connection.
func Overloaded(detail string) []byte {
	return problemOf(problem.ByCode()[problem.Overloaded], &problem.Error{Detail: detail})
}
