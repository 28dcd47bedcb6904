package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/cr-clawer/urifilter/client"
	"github.com/cr-clawer/urifilter/daemon/internal/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/items"
)

// The error codes of this package; those of package items come besides.
const (
	codeMalformedGzip      = "malformed_gzip"
	codeIncompleteBody     = "incomplete_body"
	codeMissingParameter   = "missing_parameter"
	codeUnknownParameter   = "unknown_parameter"
	codeInvalidParameter   = "invalid_parameter"
	codeConfirmRequired    = "confirm_required"
	codeUnauthorized       = "unauthorized"
	codeForbidden          = "forbidden"
	codeCrossSite          = "cross_site"
	codeTooManyRefusals    = "too_many_refusals"
	codeUnknownPath        = "unknown_path"
	codeUnknownFilter      = "unknown_filter"
	codeUnknownVersion     = "unknown_version"
	codeMethodNotAllowed   = "method_not_allowed"
	codeRequestTimeout     = "request_timeout"
	codeFilterConflict     = "filter_conflict"
	codeNoArchive          = "no_archive"
	codeLeaseHeld          = "lease_held"
	codeArchiveMismatch    = "archive_mismatch"
	codeBodyTooLarge       = "body_too_large"
	codeUnsupportedMedia   = "unsupported_media_type"
	codeUnsupportedCoding  = "unsupported_encoding"
	codeInvalidFilter      = "invalid_filter"
	codeExpireNotSupported = "expire_not_supported"
	codeExpireMissing      = "expire_missing"
	codeBitMapNotSupported = "bitmap_not_supported"
	codeInternal           = "internal"
	codeArchiveFailed      = "archive_failed"
	codeOverloaded         = "overloaded"
	codeFilterRestoring    = "filter_restoring"
	codeFilterQuarantined  = "filter_quarantined"
	codeArchiveUnavailable = "archive_unavailable"
	codeStoreUnavailable   = "store_unavailable"
	codeOutcomeUnknown     = "outcome_unknown"
	codeStoreFailed        = "store_failed"
	codeNotReady           = "not_ready"
	codeNoStorage          = "insufficient_storage"
	codeFilterFull         = "filter_full"
)

// errorEntry is what an error code means to an HTTP client.
type errorEntry struct {
	code   string
	status int
	title  string
}

// errorTable is every error that the interface answers with. A 4xx and a 507 promise
// that nothing of the request was remembered, and so do the 503 that say so.
func errorTable() []errorEntry {
	return []errorEntry{
		{items.MalformedJSON, http.StatusBadRequest, "The body is not well-formed JSON."},
		{items.WrongType, http.StatusBadRequest, "A member of the body has the wrong JSON type."},
		{items.MissingField, http.StatusBadRequest, "The body lacks a member that is required."},
		{items.UnknownField, http.StatusBadRequest, "The body has a member that is not known."},
		{items.DuplicateField, http.StatusBadRequest, "The body has a member twice."},
		{items.EmptyItem, http.StatusBadRequest, "An item is an empty string."},
		{items.NullItem, http.StatusBadRequest, "An item is null."},
		{items.InvalidItem, http.StatusBadRequest, "An item cannot be told apart from others as it is written."},
		{items.InvalidUTF8, http.StatusBadRequest, "A string is not valid Unicode."},
		{codeMalformedGzip, http.StatusBadRequest, "The body is not well-formed gzip."},
		{codeIncompleteBody, http.StatusBadRequest, "The body broke off before its end."},
		{codeMissingParameter, http.StatusBadRequest, "A query parameter is required."},
		{codeUnknownParameter, http.StatusBadRequest, "A query parameter is not known."},
		{codeInvalidParameter, http.StatusBadRequest, "A query parameter's value is not valid."},
		{codeConfirmRequired, http.StatusBadRequest, "What forgets a filter's items must be confirmed by its name."},
		{codeUnauthorized, http.StatusUnauthorized, "A valid token is required."},
		{codeForbidden, http.StatusForbidden, "The token lacks a scope."},
		{codeCrossSite, http.StatusForbidden, "A web page of another site may have made the call; without tokens the daemon refuses those."},
		{codeUnknownPath, http.StatusNotFound, "There is nothing at this path."},
		{codeUnknownFilter, http.StatusNotFound, "There is no such filter."},
		{codeUnknownVersion, http.StatusNotFound, "The archive has no such version."},
		{codeMethodNotAllowed, http.StatusMethodNotAllowed, "The path does not take this method."},
		{codeRequestTimeout, http.StatusRequestTimeout, "The body came too slowly."},
		{codeFilterConflict, http.StatusConflict, "A filter of this name or id exists with other parameters."},
		{codeNoArchive, http.StatusConflict, "The daemon has no archive."},
		{codeLeaseHeld, http.StatusConflict, "Somebody else is writing or restoring this bit-map."},
		{codeArchiveMismatch, http.StatusConflict, "The archive has another bit-map under the name of this filter."},
		{codeBodyTooLarge, http.StatusRequestEntityTooLarge, "The body is too large."},
		{items.ItemTooLarge, http.StatusRequestEntityTooLarge, "An item is too large."},
		{items.TooManyItems, http.StatusRequestEntityTooLarge, "The list has too many items."},
		{codeUnsupportedMedia, http.StatusUnsupportedMediaType, "The body's Content-Type is not accepted here."},
		{codeUnsupportedCoding, http.StatusUnsupportedMediaType, "The body's Content-Encoding is not accepted."},
		{codeInvalidFilter, http.StatusUnprocessableEntity, "A filter cannot be made with these parameters."},
		{codeExpireNotSupported, http.StatusUnprocessableEntity, "Filters of this kind do not expire items."},
		{codeExpireMissing, http.StatusUnprocessableEntity, "Neither the filter nor the call says when items expire."},
		{items.ExpireInvalid, http.StatusUnprocessableEntity, "Items cannot expire after that time."},
		{codeBitMapNotSupported, http.StatusUnprocessableEntity, "Filters of this kind have no bit-map that could be archived."},
		{codeTooManyRefusals, http.StatusTooManyRequests, "Too many tokens from this address were not known."},
		{codeInternal, http.StatusInternalServerError, "Internal error; the daemon's log says more."},
		{codeArchiveFailed, http.StatusInternalServerError, "The copy from or to the archive failed; what was archived before is as it was."},
		{codeOverloaded, http.StatusServiceUnavailable, "Too much is being received at once; try again."},
		{codeFilterRestoring, http.StatusServiceUnavailable, "The filter is being restored from the archive."},
		{codeFilterQuarantined, http.StatusServiceUnavailable, "The filter's data are damaged; it is not served until somebody has decided what is to become of it."},
		{codeArchiveUnavailable, http.StatusServiceUnavailable, "The archive cannot be had at present."},
		{codeStoreUnavailable, http.StatusServiceUnavailable, "The store cannot be reached, or is being resynced; nothing was remembered."},
		{codeOutcomeUnknown, http.StatusServiceUnavailable, "The store failed in the middle of the batch; some of its items may have been remembered."},
		{codeStoreFailed, http.StatusServiceUnavailable, "The store has failed and takes nothing until the daemon is restarted."},
		{codeNotReady, http.StatusServiceUnavailable, "The daemon should not be sent requests now."},
		{codeNoStorage, http.StatusInsufficientStorage, "The store has no space left for new items."},
		{codeFilterFull, http.StatusInsufficientStorage, "The filter is full and takes nothing new."},
	}
}

func errorsByCode() map[string]errorEntry {
	byCode := map[string]errorEntry{}
	for _, e := range errorTable() {
		byCode[e.code] = e
	}
	return byCode
}

// fault is an error that the client is told of.
type fault struct {
	code   string
	detail string   // for the client; may be empty
	known  []string // values that would have been accepted
	offset *int64
	header [2]string // one header line to send along
	cause  error     // for the log
}

func (f *fault) Error() string {
	msg := f.code
	if f.detail != "" {
		msg += ": " + f.detail
	}
	if f.cause != nil {
		msg += ": " + f.cause.Error()
	}
	return msg
}

func (f *fault) Unwrap() error { return f.cause }

// asFault finds what the client is told of err. What is not foreseen is internal, and
// its text stays in the log.
func asFault(err error) (*fault, *int) {
	var (
		own     *fault
		item    *items.Error
		unknown *engine.UnknownFilterError
		spec    *engine.SpecError
		waits   *engine.RestoringError
		bad     *engine.QuarantinedError
		kind    *engine.KindError
		expire  *batch.ExpireError
		dropped *batch.DroppedError
	)
	switch {
	case errors.As(err, &own):
		return own, nil
	case errors.As(err, &item):
		f := &fault{code: item.Code, detail: item.Detail}
		if item.Offset >= 0 {
			f.offset = &item.Offset
		}
		if item.Index >= 0 {
			return f, &item.Index
		}
		return f, nil
	case errors.As(err, &bad):
		return &fault{code: codeFilterQuarantined, detail: "filter " + bad.Name + ": the daemon's log, at its start, names what is damaged and the ways out"}, nil
	case errors.As(err, &waits) && waits.Cause == nil:
		return &fault{code: codeFilterRestoring, detail: waits.Error()}, nil
	case errors.As(err, &waits):
		return &fault{code: codeArchiveUnavailable, detail: "filter " + waits.Filter + ": waits for the archive"}, nil
	case errors.As(err, &unknown):
		return &fault{code: codeUnknownFilter, detail: unknown.Error(), known: unknown.Known}, nil
	case errors.As(err, &dropped):
		return &fault{code: codeUnknownFilter, detail: dropped.Error()}, nil
	case errors.As(err, &expire):
		codes := map[batch.ExpireReason]string{
			batch.ExpireNotSupported: codeExpireNotSupported, batch.ExpireMissing: codeExpireMissing, batch.ExpireInvalid: items.ExpireInvalid,
		}
		return &fault{code: codes[expire.Reason], detail: expire.Msg}, nil
	case errors.As(err, &kind):
		return &fault{code: codeBitMapNotSupported, detail: kind.Error()}, nil
	case errors.As(err, &spec):
		return &fault{code: codeInvalidFilter, detail: spec.Error()}, nil
	case errors.Is(err, engine.ErrConflict):
		return &fault{code: codeFilterConflict, detail: err.Error()}, nil
	case errors.Is(err, engine.ErrFull):
		return &fault{code: codeFilterFull, detail: err.Error()}, nil
	case errors.Is(err, engine.ErrInDoubt): // before the others, which it may wrap
		return &fault{code: codeOutcomeUnknown, cause: err}, nil
	case errors.Is(err, engine.ErrUnavailable):
		return &fault{code: codeStoreUnavailable, cause: err}, nil
	case errors.Is(err, engine.ErrNoSpace):
		return &fault{code: codeNoStorage, cause: err}, nil
	case errors.Is(err, engine.ErrFailed):
		return &fault{code: codeStoreFailed, cause: err}, nil
	}
	if f := archiveFault(err); f != nil {
		return f, nil
	}
	return &fault{code: codeInternal, cause: err}, nil
}

// expected tells of codes that the log is told otherwise, or need not be.
func expected(code string) bool {
	return slices.Contains([]string{codeNotReady, codeOverloaded, codeFilterRestoring, codeFilterQuarantined, codeArchiveUnavailable}, code)
}

// retryAfter is in how many seconds to ask again. After a batch that broke off, the other
// daemons that share the store need one to learn of it.
func retryAfter(code string) string {
	if code == codeOutcomeUnknown {
		return "2"
	}
	return "1"
}

// fail answers err. It must not be called once an answer has begun.
func (c *call) fail(err error) {
	if errors.Is(err, context.Canceled) && c.r.Context().Err() != nil {
		c.hangUp(statusClientGone) // nobody is there to be answered
	}
	f, index := asFault(err)
	entry, ok := c.s.errors[f.code]
	if !ok {
		f, entry = &fault{cause: err}, c.s.errors[codeInternal]
	}
	c.code = entry.code
	if entry.status >= 500 && !expected(entry.code) {
		c.s.log.Error("request failed", "path", c.route.path, "status", entry.status, "err", err)
	}
	body := problemOf(entry, f, index)
	h := c.w.Header()
	if f.header[0] != "" {
		h.Set(f.header[0], f.header[1])
	}
	switch entry.status {
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", retryAfter(entry.code))
	case http.StatusRequestTimeout:
		h.Set("Connection", "close")
	}
	c.send(entry.status, c.s.header.problem, body)
}

// problemOf is an error in problem+json.
func problemOf(entry errorEntry, f *fault, index *int) []byte {
	body, err := json.Marshal(client.Problem{
		Type:      "urn:urifilter:problem:" + entry.code,
		Title:     entry.title,
		Status:    entry.status,
		Detail:    f.detail,
		ErrorCode: entry.code,
		Index:     index,
		Offset:    f.offset,
		Known:     f.known,
	})
	if err != nil {
		panic(err) // a Problem has nothing that cannot be marshalled
	}
	return append(body, '\n')
}

// Overloaded is the problem that a caller is told whose connection is not taken.
func Overloaded(detail string) []byte {
	return problemOf(errorsByCode()[codeOverloaded], &fault{detail: detail}, nil)
}
