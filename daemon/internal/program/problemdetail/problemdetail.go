// Package problemdetail describes errors to HTTP callers: an error with the code that they branch
// on, in the form of RFC 9457. Each program defines its own codes besides the common ones, and
// what causes them.
package problemdetail

import (
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/cr-clawer/urifilter/configs/strict"
)

// The codes that all our programs may answer.
const (
	InvalidParameter = "invalid_parameter"
	UnknownParameter = "unknown_parameter"
	IncompleteBody   = "incomplete_body"
	Unauthorized     = "unauthorized"
	Forbidden        = "forbidden"
	CrossSite        = "cross_site"
	TooManyRefusals  = "too_many_refusals"
	UnknownPath      = "unknown_path"
	MethodNotAllowed = "method_not_allowed"
	RequestTimeout   = "request_timeout"
	BodyTooLarge     = "body_too_large"
	UnsupportedMedia = "unsupported_media_type"
	Internal         = "internal"
	Overloaded       = "overloaded"
	NotReady         = "not_ready"
	StoreUnavailable = "store_unavailable"
)

// Meaning is what a code means to callers by HTTP.
type Meaning struct {
	Status int
	Title  string // a sentence
}

// Common returns the codes that mean the same in all our programs; self is what a program calls
// itself there, such as daemon. Of the codes above, StoreUnavailable and Overloaded are missing:
// what they promise depends on the program.
func Common(self string) map[string]Meaning {
	return map[string]Meaning{
		InvalidParameter: {http.StatusBadRequest, "A query parameter's value is not valid."},
		UnknownParameter: {http.StatusBadRequest, "A query parameter is unknown."},
		IncompleteBody:   {http.StatusBadRequest, "The body broke off before its end."},
		Unauthorized:     {http.StatusUnauthorized, "A valid token is required."},
		Forbidden:        {http.StatusForbidden, "The token lacks a scope."},
		CrossSite:        {http.StatusForbidden, "A web page of another site may have made the call; without tokens the " + self + " refuses those."},
		UnknownPath:      {http.StatusNotFound, "There is nothing at this path."},
		MethodNotAllowed: {http.StatusMethodNotAllowed, "The path does not support this method."},
		RequestTimeout:   {http.StatusRequestTimeout, "The body came too slowly."},
		BodyTooLarge:     {http.StatusRequestEntityTooLarge, "The body is too large."},
		UnsupportedMedia: {http.StatusUnsupportedMediaType, "The body's Content-Type is not accepted here."},
		TooManyRefusals:  {http.StatusTooManyRequests, "Too many unknown tokens came from this address."},
		Internal:         {http.StatusInternalServerError, "Internal error; the " + self + "'s log says more."},
		NotReady:         {http.StatusServiceUnavailable, "The " + self + " should not be sent requests now."},
	}
}

// Error is an error that is shown to callers.
type Error struct {
	Code   string
	Detail string    // for the caller; may be empty
	Known  []string  // values that would have been accepted
	Index  *int      // of the item at fault, from 0; nil: none
	Offset *int64    // byte of the request at which the fault is; nil: none
	Header [2]string // one header line for callers by HTTP
	Cause  error     // for the log
}

func (e *Error) Error() string {
	msg := e.Code
	if e.Detail != "" {
		msg += ": " + e.Detail
	}
	if e.Cause != nil {
		msg += ": " + e.Cause.Error()
	}
	return msg
}

func (e *Error) Unwrap() error { return e.Cause }

// Of finds the Error in err; any other error is internal, and its text is for the log only.
func Of(err error) *Error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	return &Error{Code: Internal, Cause: err}
}

// cacheBuster is a parameter that some clients send with other values each time, so that nothing between them and
// the program answers from a cache.
const cacheBuster = "_"

// Query returns the parameters of a call, which takes those that are known. As unknown members of a body, others are
// refused: a mistyped name must not change what is answered.
func Query(r *http.Request, known ...string) (url.Values, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, &Error{Code: InvalidParameter, Detail: err.Error()}
	}
	delete(query, cacheBuster)
	for _, name := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(known, name) {
			continue
		}
		detail := strconv.Quote(name)
		if near := strict.Nearest(name, known); near != "" {
			detail += "; did you mean " + near + "?"
		} else if len(known) == 0 {
			detail += ": such a call takes none"
		}
		return nil, &Error{Code: UnknownParameter, Detail: detail, Known: known}
	}
	return query, nil
}

// Detail is the body of an answer, application/problem+json.
type Detail struct {
	Type      string   `json:"type"`
	Title     string   `json:"title"`
	Status    int      `json:"status"`
	Detail    string   `json:"detail,omitempty"`
	ErrorCode string   `json:"error_code"`
	Index     *int     `json:"index,omitempty"`
	Offset    *int64   `json:"offset,omitempty"`
	Known     []string `json:"known,omitempty"`
}

// Encode returns the body that describes e, with a line end. The title is a sentence for its code.
func Encode(program string, status int, title string, e *Error) []byte {
	body, err := json.Marshal(Detail{
		Type:      "urn:" + program + ":problem:" + e.Code,
		Title:     title,
		Status:    status,
		Detail:    e.Detail,
		ErrorCode: e.Code,
		Index:     e.Index,
		Offset:    e.Offset,
		Known:     e.Known,
	})
	if err != nil {
		panic(err) // every Detail can be marshalled
	}
	return append(body, '\n')
}
