package master

import (
	"errors"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// entry is what a code means to callers.
type entry struct {
	status int
	title  string
}

// The codes of the master, in addition to those of every program.
const (
	CodeUnknownJob    = "unknown_job"
	CodeUnknownFilter = "unknown_filter"
	CodeNoData        = "no_data"
	CodeNoScript      = "no_script"
	CodeJobExists     = "job_exists"
	CodeConfirm       = "confirm_required"
	CodeInvalidJob    = "invalid_job"
	CodeInvalidURI    = "invalid_uri"
	CodeIncomplete    = "incomplete_body"
)

// codes are the statuses and titles of all codes.
func codes() map[string]entry {
	return map[string]entry{
		problemdetail.InvalidParameter: {http.StatusBadRequest, "A query parameter's value is not valid."},
		CodeConfirm:                    {http.StatusBadRequest, "A call that removes a job must be confirmed by its name."},
		CodeInvalidURI:                 {http.StatusBadRequest, "A line is no URI that can be downloaded."},
		CodeIncomplete:                 {http.StatusBadRequest, "The body broke off before its end."},
		problemdetail.Unauthorized:     {http.StatusUnauthorized, "A valid token is required."},
		problemdetail.Forbidden:        {http.StatusForbidden, "The token lacks a scope."},
		problemdetail.CrossSite:        {http.StatusForbidden, "A web page of another site may have made the call; without tokens the program refuses those."},
		problemdetail.UnknownPath:      {http.StatusNotFound, "There is nothing at this path."},
		CodeUnknownJob:                 {http.StatusNotFound, "There is no such job."},
		CodeNoData:                     {http.StatusNotFound, "Nothing was downloaded for this task."},
		problemdetail.MethodNotAllowed: {http.StatusMethodNotAllowed, "The path does not support this method."},
		problemdetail.RequestTimeout:   {http.StatusRequestTimeout, "The body came too slowly."},
		CodeNoScript:                   {http.StatusConflict, "The job has no such script."},
		CodeJobExists:                  {http.StatusConflict, "There is a job of this name."},
		problemdetail.BodyTooLarge:     {http.StatusRequestEntityTooLarge, "The body is too large."},
		problemdetail.UnsupportedMedia: {http.StatusUnsupportedMediaType, "The body's Content-Type is not accepted here."},
		CodeInvalidJob:                 {http.StatusUnprocessableEntity, "The job is not valid; nothing was stored."},
		CodeUnknownFilter:              {http.StatusUnprocessableEntity, "The filter of the job does not exist."},
		problemdetail.TooManyRefusals:  {http.StatusTooManyRequests, "Too many unknown tokens came from this address."},
		problemdetail.Internal:         {http.StatusInternalServerError, "Internal error; the program's log says more."},
		problemdetail.StoreUnavailable: {http.StatusServiceUnavailable, "The store or the filter cannot be reached at present."},
		problemdetail.NotReady:         {http.StatusServiceUnavailable, "The program should not be sent requests now."},
		problemdetail.Overloaded:       {http.StatusServiceUnavailable, "Too many connections are open; try again."},
	}
}

// problemOf returns the problem that callers see for err.
func problemOf(err error) *problemdetail.Error {
	var unknown *seen.UnknownError
	var none *noScriptError
	switch {
	case errors.Is(err, download.ErrNoJob):
		return &problemdetail.Error{Code: CodeUnknownJob, Cause: err}
	case errors.Is(err, download.ErrExists):
		return &problemdetail.Error{Code: CodeJobExists, Detail: "PUT makes a new version of it", Cause: err}
	case errors.Is(err, download.ErrNoData):
		return &problemdetail.Error{Code: CodeNoData, Cause: err}
	case errors.Is(err, download.ErrUnavailable):
		return &problemdetail.Error{Code: problemdetail.StoreUnavailable, Detail: "the store does not answer at present; what was asked for may have been done", Cause: err}
	case errors.As(err, &none):
		return &problemdetail.Error{Code: CodeNoScript, Detail: none.Error()}
	case errors.As(err, &unknown):
		return &problemdetail.Error{Code: CodeUnknownFilter, Detail: unknown.Error(), Known: unknown.Known}
	}
	return problemdetail.Of(err)
}

func (m *Master) fail(w http.ResponseWriter, r *http.Request, path string, err error) {
	p := problemOf(err)
	e, known := codes()[p.Code]
	if !known {
		p, e = &problemdetail.Error{Code: problemdetail.Internal, Cause: err}, codes()[problemdetail.Internal]
	}
	if e.status >= 500 && r.Context().Err() == nil {
		m.Log.Error("request failed", "path", path, "status", e.status, "err", err)
	}
	h := w.Header()
	if p.Header[0] != "" {
		h.Set(p.Header[0], p.Header[1])
	}
	if e.status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.status)
	_, _ = w.Write(problemdetail.Encode("uridownloader", e.status, e.title, p))
}

// Overloaded is the problem sent to a caller whose connection is refused.
func Overloaded() []byte {
	e := codes()[problemdetail.Overloaded]
	return problemdetail.Encode("uridownloader", e.status, e.title, &problemdetail.Error{Code: problemdetail.Overloaded, Detail: "too many connections are open: see limits.connections"})
}
