// Package problem is the central table of what can go wrong with a call: from the cause, an error
// of the inner packages, to the code that users branch on, and from there to the answer of each
// interface: the status and title of HTTP, the error of RESP, the exit code of a command.
//
// It writes no answers. The codes of invalid items are in package items, which finds them.
package problem

import (
	"net/http"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/command"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Entry is what a code means to the callers of each interface.
type Entry struct {
	Code   string
	Status int // of HTTP
	// RESP is the first word of the error in that protocol. Clients retry automatically after
	// TRYAGAIN, so it also says that nothing was remembered.
	RESP  string
	Exit  int    // of a command that got this answer
	Title string // a sentence
}

// Table lists all codes. A 4xx and a 507 promise that nothing of the request was remembered,
// and so do those 503 that say so.
func Table() []Entry {
	const exit = command.ExitFailure // the only one that README.md promises
	meanings := problemdetail.Common("daemon")
	common := func(code, resp string) Entry {
		return Entry{code, meanings[code].Status, resp, exit, meanings[code].Title}
	}
	return []Entry{
		{items.MalformedJSON, http.StatusBadRequest, "ERR", exit, "The body is not well-formed JSON."},
		{items.WrongType, http.StatusBadRequest, "ERR", exit, "A member of the body has the wrong JSON type."},
		{items.MissingField, http.StatusBadRequest, "ERR", exit, "The body lacks a member that is required."},
		{items.UnknownField, http.StatusBadRequest, "ERR", exit, "The body has an unknown member."},
		{items.DuplicateField, http.StatusBadRequest, "ERR", exit, "A member of the body appears twice."},
		{items.EmptyItem, http.StatusBadRequest, "ERR", exit, "An item is an empty string."},
		{items.NullItem, http.StatusBadRequest, "ERR", exit, "An item is null."},
		{items.InvalidItem, http.StatusBadRequest, "ERR", exit, "An item cannot be told apart from others as it is written."},
		{items.InvalidUTF8, http.StatusBadRequest, "ERR", exit, "A string is not valid Unicode."},
		{items.IDInvalid, http.StatusBadRequest, "ERR", exit, "The id of a document is empty or too long."},
		{items.DuplicateID, http.StatusBadRequest, "ERR", exit, "Two documents of one call have the same id."},
		{items.TextTooShort, http.StatusBadRequest, "ERR", exit, "The text of a document is too short to be compared."},
		{MalformedGzip, http.StatusBadRequest, "ERR", exit, "The body is not well-formed gzip."},
		common(IncompleteBody, "ERR"),
		{MissingParameter, http.StatusBadRequest, "ERR", exit, "A query parameter is required."},
		common(UnknownParameter, "ERR"),
		common(InvalidParameter, "ERR"),
		{ConfirmRequired, http.StatusBadRequest, "ERR", exit, "A call that forgets all items of a filter must be confirmed by its name."},
		common(Unauthorized, "NOAUTH"),
		common(Forbidden, "NOPERM"),
		common(CrossSite, "NOPERM"),
		common(UnknownPath, "ERR"),
		{UnknownFilter, http.StatusNotFound, "ERR", exit, "There is no such filter."},
		{UnknownReservation, http.StatusNotFound, "ERR", exit, "There is no such reservation, or no longer."},
		{UnknownVersion, http.StatusNotFound, "ERR", exit, "The archive has no such version."},
		common(MethodNotAllowed, "ERR"),
		common(RequestTimeout, "ERR"),
		{FilterConflict, http.StatusConflict, "ERR", exit, "A filter of this name or id exists with other parameters."},
		{FiltersDiffer, http.StatusConflict, "ERR", exit, "Filters that differ so cannot be merged, nor made alike."},
		{NoArchive, http.StatusConflict, "ERR", exit, "The daemon has no archive."},
		{LeaseHeld, http.StatusConflict, "ERR", exit, "Somebody else is writing or restoring this bit-map."},
		{ArchiveMismatch, http.StatusConflict, "ERR", exit, "The archive has another bit-map under the name of this filter."},
		common(BodyTooLarge, "ERR"),
		{items.ItemTooLarge, http.StatusRequestEntityTooLarge, "ERR", exit, "An item is too large."},
		{items.TextTooLarge, http.StatusRequestEntityTooLarge, "ERR", exit, "The text of a document is too large."},
		{items.TooManyItems, http.StatusRequestEntityTooLarge, "ERR", exit, "The list has too many items."},
		common(UnsupportedMedia, "ERR"),
		{UnsupportedCoding, http.StatusUnsupportedMediaType, "ERR", exit, "The body's Content-Encoding is not accepted."},
		{InvalidFilter, http.StatusUnprocessableEntity, "ERR", exit, "A filter cannot be made with these parameters."},
		{ExpireNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Filters of this kind do not expire items."},
		{ExpireMissing, http.StatusUnprocessableEntity, "ERR", exit, "Neither the filter nor the call says when items expire."},
		{items.ExpireInvalid, http.StatusUnprocessableEntity, "ERR", exit, "Items cannot expire after that time."},
		{items.LeaseInvalid, http.StatusUnprocessableEntity, "ERR", exit, "Items cannot be reserved for that time."},
		{BitMapNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Filters of this kind have no bit-map that could be archived."},
		{ForgetNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Filters of this kind cannot forget single items in this store."},
		{NearNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Filters of this kind cannot tell which texts are near each other."},
		{ItemsNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Filters of this kind are asked about documents, not items."},
		{items.DistanceInvalid, http.StatusUnprocessableEntity, "ERR", exit, "Documents cannot be searched up to that distance."},
		{items.LimitInvalid, http.StatusUnprocessableEntity, "ERR", exit, "That many near documents cannot be listed."},
		{ReserveNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "Items of this kind of filter cannot be reserved in this store."},
		{DigestsNotSupported, http.StatusUnprocessableEntity, "ERR", exit, "The digests of this filter cannot be listed, or there are none."},
		common(TooManyRefusals, "ERR"),
		common(Internal, "ERR"),
		{ArchiveFailed, http.StatusInternalServerError, "ERR", exit, "The copy from or to the archive failed; what was archived before is as it was."},
		{Overloaded, http.StatusServiceUnavailable, "TRYAGAIN", exit, "Too much is being received at once; try again."},
		{FilterRestoring, http.StatusServiceUnavailable, "TRYAGAIN", exit, "The filter is being restored from the archive."},
		{FilterQuarantined, http.StatusServiceUnavailable, "ERR", exit, "The filter's data are damaged; it is not served until an operator has decided what to do with it."},
		{ArchiveUnavailable, http.StatusServiceUnavailable, "TRYAGAIN", exit, "The archive cannot be reached at present."},
		{StoreUnavailable, http.StatusServiceUnavailable, "TRYAGAIN", exit, "The store cannot be reached, or is being resynced; nothing was remembered."},
		{OutcomeUnknown, http.StatusServiceUnavailable, "ERR", exit, "The store failed in the middle of the batch; some of its items may have been remembered."},
		{StoreFailed, http.StatusServiceUnavailable, "MISCONF", exit, "The store has failed and accepts nothing until the daemon is restarted."},
		common(NotReady, "TRYAGAIN"),
		{NoStorage, http.StatusInsufficientStorage, "OOM", exit, "The store has no space left; nothing was changed."},
		{FilterFull, http.StatusInsufficientStorage, "ERR", exit, "The filter is full and accepts nothing new."},
	}
}

// ByCode indexes the table by code.
func ByCode() map[string]Entry {
	byCode := map[string]Entry{}
	for _, e := range Table() {
		byCode[e.Code] = e
	}
	return byCode
}
