package problem

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/archive"
	"github.com/cr-clawer/urifilter/daemon/internal/archive/backup"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/batch"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items"
	"github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"
)

// Error is an error that is shown to callers.
type Error = problemdetail.Error

// RESP returns the error in the form of RESP, in one line.
func RESP(e *Error) string {
	entry, ok := ByCode()[e.Code]
	if !ok {
		e, entry = &Error{Code: Internal}, ByCode()[Internal]
	}
	text := e.Detail
	if text == "" {
		text = entry.Title
	}
	return strings.Join(strings.Fields(entry.RESP+" "+entry.Code+": "+text), " ")
}

// maxKnown is how many filters an error names.
const maxKnown = 20

// Of finds the Error that callers get for err. An unforeseen error is internal, and its
// text is only in the log.
func Of(err error) *Error {
	var (
		own     *Error
		item    *items.Error
		unknown *engine.UnknownFilterError
		spec    *engine.SpecError
		waits   *engine.RestoringError
		bad     *engine.QuarantinedError
		kind    *engine.KindError
		expire  *batch.ExpireError
		dropped *batch.DroppedError
		lease   *batch.LeaseError
		unlike  *engine.UnlikeError
	)
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &item):
		f := &Error{Code: item.Code, Detail: item.Detail}
		if item.Offset >= 0 {
			f.Offset = &item.Offset
		}
		if item.Index >= 0 {
			f.Index = &item.Index
		}
		return f
	case errors.As(err, &bad):
		return &Error{Code: FilterQuarantined, Detail: "filter " + bad.Name + ": the daemon's log names what is damaged and the ways out"}
	case errors.As(err, &waits) && waits.Cause == nil:
		return &Error{Code: FilterRestoring, Detail: waits.Error()}
	case errors.As(err, &waits):
		return &Error{Code: ArchiveUnavailable, Detail: "filter " + waits.Filter + ": waits for the archive"}
	case errors.As(err, &unknown):
		f := &Error{Code: UnknownFilter, Detail: unknown.Error(), Known: unknown.Known}
		if n := len(f.Known); n > maxKnown {
			f.Known = f.Known[:maxKnown]
			f.Detail += fmt.Sprintf("; known are the first %d of %d, and GET /api/v1/filters lists all", maxKnown, n)
		}
		return f
	case errors.As(err, &dropped):
		return &Error{Code: UnknownFilter, Detail: dropped.Error()}
	case errors.As(err, &expire):
		codes := map[batch.ExpireReason]string{
			batch.ExpireNotSupported: ExpireNotSupported, batch.ExpireMissing: ExpireMissing, batch.ExpireInvalid: items.ExpireInvalid,
		}
		return &Error{Code: codes[expire.Reason], Detail: expire.Msg}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrNoBitMap):
		return &Error{Code: BitMapNotSupported, Detail: kind.Error()}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrForgetsNone):
		return &Error{Code: ForgetNotSupported, Detail: kind.Error() + " (a bit of a bit-map may stand for many of them); " +
			kind.Others() + " can, and any filter can be cleared as a whole"}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrComparesNone):
		return &Error{Code: NearNotSupported, Detail: kind.Error() + "; " + kind.Others() + " can"}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrKeepsTexts):
		return &Error{Code: ItemsNotSupported, Detail: kind.Error() + `; send documents to POST /api/v1/near, with "remember": false to look only ("urifilter near" does it); any filter can be cleared as a whole`}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrReservesNone):
		return &Error{Code: ReserveNotSupported, Detail: kind.Error() + "; " + kind.Others() + " can " +
			"(a bit of a bit-map may stand for many items, and cannot be given back)"}
	case errors.As(err, &kind) && errors.Is(kind, engine.ErrListsNone):
		return &Error{Code: DigestsNotSupported, Detail: kind.Error() + "; " + kind.Others() + " have, in the store embedded"}
	case errors.As(err, &unlike):
		return &Error{Code: FiltersDiffer, Detail: unlike.Error()}
	case errors.As(err, &lease):
		return &Error{Code: items.LeaseInvalid, Detail: lease.Error()}
	case errors.Is(err, engine.ErrNoReservation):
		return &Error{Code: UnknownReservation, Detail: fmt.Sprintf("the reservation is unknown to the filter: it is not as the reserve call answered it, is of another filter or of "+
			"one that was cleared, or its lease ended more than %v ago; items that were not committed are new: reserve them again", engine.KeptSettled)}
	case errors.As(err, &spec):
		return &Error{Code: InvalidFilter, Detail: spec.Error()}
	case errors.Is(err, engine.ErrConflict):
		return &Error{Code: FilterConflict, Detail: err.Error()}
	case errors.Is(err, engine.ErrFull):
		return &Error{Code: FilterFull, Detail: err.Error()}
	case errors.Is(err, engine.ErrInDoubt): // before the others, which it may wrap
		return &Error{Code: OutcomeUnknown, Cause: err}
	case errors.Is(err, engine.ErrUnavailable):
		return &Error{Code: StoreUnavailable, Cause: err}
	case errors.Is(err, engine.ErrNoSpace):
		return &Error{Code: NoStorage, Cause: err}
	case errors.Is(err, engine.ErrFailed):
		return &Error{Code: StoreFailed, Cause: err}
	}
	if f := ofCopy(err); f != nil {
		return f
	}
	return &Error{Code: Internal, Cause: err}
}

// ofCopy finds the Error that the client gets for an error of a copy; nil for others.
// Only callers who may administer the daemon get these.
func ofCopy(err error) *Error {
	var (
		busy     *backup.BusyError
		lease    *archive.LeaseError
		overtook *archive.OvertakenError
		mismatch *archive.MismatchError
		version  *backup.UnknownVersionError
		failed   *backup.CopyError
	)
	switch {
	case errors.As(err, &busy):
		return &Error{Code: LeaseHeld, Detail: busy.Error()}
	case errors.As(err, &lease):
		return &Error{Code: LeaseHeld, Detail: fmt.Sprintf("filter %s: held by %s until %s", lease.Filter, lease.Owner, lease.Until.UTC().Format(time.RFC3339))}
	case errors.As(err, &overtook):
		return &Error{Code: LeaseHeld, Detail: overtook.Error()}
	case errors.As(err, &mismatch):
		return &Error{Code: ArchiveMismatch, Detail: mismatch.Error()}
	case errors.As(err, &version):
		return &Error{Code: UnknownVersion, Detail: version.Error(), Known: version.Known}
	case errors.Is(err, backup.ErrStopping):
		return &Error{Code: NotReady, Detail: backup.ErrStopping.Error()}
	case errors.Is(err, archive.ErrUnreachable):
		return &Error{Code: ArchiveUnavailable, Cause: err}
	case errors.Is(err, engine.ErrFailed), errors.Is(err, engine.ErrNoSpace), errors.Is(err, engine.ErrConflict):
		return nil // not the archive's
	case errors.As(err, &failed):
		return &Error{Code: ArchiveFailed, Detail: failed.Error()}
	}
	return nil
}
