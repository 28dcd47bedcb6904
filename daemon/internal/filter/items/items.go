// Package items decodes the lists of items in request bodies to the canonical bytes
// that filters hash, and writes answers from the same bytes.
//
// A string item is its UTF-8 bytes; any other JSON value is its RFC 8785 canonical
// JSON. A list holds slices of the body it was decoded from, so that decoding a batch
// of ordinary strings copies nothing and, with a List that is reused, allocates nothing.
// Input that would silently merge different items (invalid UTF-8, integers that a double
// cannot hold, an object with one key twice) is an error.
//
// The package does not look at filters, tokens or HTTP; it says what the body holds.
package items

import "fmt"

// Limits bound what one request may hold; 0 is no limit.
type Limits struct {
	Items     int // items of a list; of a batch for a Reader
	ItemBytes int // canonical bytes of one item
	// Skip makes a Reader leave out lines that are not items, instead of ending with an error.
	// A Request says itself whether it wants that.
	Skip bool
}

func (l Limits) itemTooLarge(n int) bool { return l.ItemBytes > 0 && n > l.ItemBytes }

// The codes of Error.
const (
	MalformedJSON  = "malformed_json"
	WrongType      = "wrong_type"
	MissingField   = "missing_field"
	UnknownField   = "unknown_field"
	DuplicateField = "duplicate_field"
	EmptyItem      = "empty_item"
	NullItem       = "null_item"
	InvalidItem    = "invalid_item" // a key twice in an object, a number that a double cannot hold
	ItemTooLarge   = "item_too_large"
	TooManyItems   = "too_many_items"
	InvalidUTF8    = "invalid_utf8"   // also half a surrogate pair
	ExpireInvalid  = "expire_invalid" // no number, or one that a double cannot hold
	LeaseInvalid   = "lease_invalid"  // likewise

	// Of documents.
	IDInvalid       = "id_invalid" // empty, or too long
	DuplicateID     = "duplicate_id"
	TextTooShort    = "text_too_short"
	TextTooLarge    = "text_too_large"
	DistanceInvalid = "distance_invalid"
	LimitInvalid    = "limit_invalid"
)

// Error says what is wrong with a body and where.
type Error struct {
	Code   string // one of the constants above
	Index  int    // of the item in the list, or of the line in a stream, from 0; -1: none
	Offset int64  // byte of the body or stream, from 0; -1: none
	Detail string // for people
}

func (e *Error) Error() string {
	switch {
	case e.Index >= 0 && e.Offset >= 0:
		return fmt.Sprintf("item %d, byte %d: %s", e.Index, e.Offset, e.Detail)
	case e.Index >= 0:
		return fmt.Sprintf("item %d: %s", e.Index, e.Detail)
	case e.Offset >= 0:
		return fmt.Sprintf("byte %d: %s", e.Offset, e.Detail)
	}
	return e.Detail
}
