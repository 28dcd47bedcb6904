package master

import (
	"errors"
	"maps"
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/seen"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

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
	CodeDamaged       = "damaged"
)

// codes are the statuses and titles of all codes.
func codes() map[string]problemdetail.Meaning {
	all := problemdetail.Common("program")
	maps.Copy(all, map[string]problemdetail.Meaning{
		CodeConfirm:       {Status: http.StatusBadRequest, Title: "A call that removes a job must be confirmed by its name."},
		CodeInvalidURI:    {Status: http.StatusBadRequest, Title: "A line is no URI that can be downloaded."},
		CodeUnknownJob:    {Status: http.StatusNotFound, Title: "There is no such job."},
		CodeNoData:        {Status: http.StatusNotFound, Title: "Nothing was downloaded for this task."},
		CodeNoScript:      {Status: http.StatusConflict, Title: "The job has no such script."},
		CodeJobExists:     {Status: http.StatusConflict, Title: "There is a job of this name."},
		CodeInvalidJob:    {Status: http.StatusUnprocessableEntity, Title: "The job is not valid; nothing was stored."},
		CodeUnknownFilter: {Status: http.StatusUnprocessableEntity, Title: "The filter of the job does not exist."},
		CodeDamaged:       {Status: http.StatusInternalServerError, Title: "What is stored is damaged."},

		problemdetail.StoreUnavailable: {Status: http.StatusServiceUnavailable, Title: "The store or the filter cannot be reached at present."},
		problemdetail.Overloaded:       {Status: http.StatusServiceUnavailable, Title: "Too many connections are open, or too many calls run; try again."},
	})
	return all
}

// problemOf returns the problem that callers see for err.
func problemOf(err error) *problemdetail.Error {
	var unknown *seen.UnknownError
	var none *noScriptError
	var damaged *download.DamagedError
	switch {
	case errors.As(err, &damaged):
		return &problemdetail.Error{Code: CodeDamaged, Detail: damaged.What + " is not what was downloaded", Cause: err}
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
	if e.Status >= 500 && r.Context().Err() == nil {
		m.Log.Error("request failed", "path", path, "status", e.Status, "err", err)
	}
	h := w.Header()
	if p.Header[0] != "" {
		h.Set(p.Header[0], p.Header[1])
	}
	if e.Status == http.StatusServiceUnavailable {
		h.Set("Retry-After", "1")
	}
	h.Set("Content-Type", "application/problem+json")
	w.WriteHeader(e.Status)
	_, _ = w.Write(problemdetail.Encode("uridownloader", e.Status, e.Title, p))
}

// Overloaded is the problem sent to a caller whose connection is refused.
func Overloaded() []byte {
	e := codes()[problemdetail.Overloaded]
	return problemdetail.Encode("uridownloader", e.Status, e.Title, &problemdetail.Error{Code: problemdetail.Overloaded, Detail: "too many connections are open: see limits.connections"})
}
