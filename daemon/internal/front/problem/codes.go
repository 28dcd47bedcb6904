package problem

import "github.com/cr-clawer/urifilter/daemon/internal/program/problemdetail"

// The error codes, besides those of package items.
const (
	MalformedGzip       = "malformed_gzip"
	IncompleteBody      = problemdetail.IncompleteBody
	MissingParameter    = "missing_parameter"
	UnknownParameter    = problemdetail.UnknownParameter
	InvalidParameter    = problemdetail.InvalidParameter
	ConfirmRequired     = "confirm_required"
	Unauthorized        = problemdetail.Unauthorized
	Forbidden           = problemdetail.Forbidden
	CrossSite           = problemdetail.CrossSite
	TooManyRefusals     = problemdetail.TooManyRefusals
	UnknownPath         = problemdetail.UnknownPath
	UnknownFilter       = "unknown_filter"
	UnknownVersion      = "unknown_version"
	MethodNotAllowed    = problemdetail.MethodNotAllowed
	RequestTimeout      = problemdetail.RequestTimeout
	FilterConflict      = "filter_conflict"
	NoArchive           = "no_archive"
	LeaseHeld           = "lease_held"
	ArchiveMismatch     = "archive_mismatch"
	BodyTooLarge        = problemdetail.BodyTooLarge
	UnsupportedMedia    = problemdetail.UnsupportedMedia
	UnsupportedCoding   = "unsupported_encoding"
	InvalidFilter       = "invalid_filter"
	ExpireNotSupported  = "expire_not_supported"
	ExpireMissing       = "expire_missing"
	BitMapNotSupported  = "bitmap_not_supported"
	ForgetNotSupported  = "forget_not_supported"
	ReserveNotSupported = "reserve_not_supported"
	DigestsNotSupported = "digests_not_supported"
	FiltersDiffer       = "filters_differ"
	UnknownReservation  = "unknown_reservation"
	NearNotSupported    = "near_not_supported"
	ItemsNotSupported   = "items_not_supported"
	Internal            = problemdetail.Internal
	ArchiveFailed       = "archive_failed"
	Overloaded          = problemdetail.Overloaded
	FilterRestoring     = "filter_restoring"
	FilterQuarantined   = "filter_quarantined"
	ArchiveUnavailable  = "archive_unavailable"
	StoreUnavailable    = problemdetail.StoreUnavailable
	OutcomeUnknown      = "outcome_unknown"
	StoreFailed         = "store_failed"
	NotReady            = problemdetail.NotReady
	NoStorage           = "insufficient_storage"
	FilterFull          = "filter_full"
)
