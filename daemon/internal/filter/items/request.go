package items

import (
	"bytes"
	"fmt"
	"math"
	"strconv"
)

// Request is the body of a filter or check call. The zero value is ready for use, and
// one that is reused allocates nothing for a body of the same shape.
// It is not safe for concurrent use.
type Request struct {
	Filter    string  // name, or id in decimal
	Token     string  // "" if none was sent
	Expire    float64 // seconds; any number, also a negative one
	HasExpire bool
	// Skip: items that cannot be accepted are left out of List; else they make Decode fail.
	Skip bool
	List List // refers to the body
	// Requests of the forms Reserve and Settle also have these.
	Lease       float64 // seconds; any number
	Reservation string  // Reserve: "": it has none yet
	NoList      bool    // Settle: the list was left out

	// The strings of the last body, which the next one most often repeats.
	lastFilter, lastToken string
}

// The members of a request. Two have a second name, which is accepted as well; it is an error
// to give one of them by both names, even with the same value: which of two lists was meant
// could only be found out by comparing them.
const (
	fieldFilter      = "filter_typeid"
	fieldFilterShort = "filter"
	fieldList        = "uri_list"
	fieldListShort   = "items"
	fieldToken       = "access_token"
	fieldExpire      = "expire"
	fieldInvalid     = "invalid"
	fieldLease       = "lease"
	fieldReservation = "reservation"
)

// Form says which members a request has.
type Form uint8

const (
	Plain   Form = iota // filter and list, and the optional members
	Reserve             // and a lease; perhaps the reservation's name
	Settle              // and a reservation; the list may be left out
)

// The values of the member invalid: what is done about items that cannot be accepted.
const (
	InvalidReject = "reject" // the whole request is an error
	InvalidSkip   = "skip"   // they are left out, and listed
)

// Reset empties the request and releases the body.
func (r *Request) Reset() {
	r.List.Reset()
	*r = Request{List: r.List, lastFilter: r.lastFilter, lastToken: r.lastToken}
}

// Decode is DecodeAs for plain requests.
func (r *Request) Decode(body []byte, lim Limits) error { return r.DecodeAs(Plain, body, lim) }

// DecodeAs reads body, which it does not copy, into r. An error is an *Error, and
// leaves r empty.
func (r *Request) DecodeAs(form Form, body []byte, lim Limits) error {
	r.Reset()
	if len(body) > math.MaxUint32 {
		return &Error{MalformedJSON, -1, -1, fmt.Sprintf("body of %d bytes, want less than 4 GiB", len(body))}
	}
	r.List.body = body
	p := parser{body: body, list: &r.List, lim: lim, item: -1}
	err := r.decode(&p, form)
	if faults := r.List.Faults(); len(faults) > 0 && !r.Skip {
		first := faults[0] // which takes precedence over anything later
		err = &first
	}
	if err != nil {
		r.Reset()
		return err
	}
	return nil
}

func (r *Request) decode(p *parser, form Form) *Error {
	seen := fields{form: form}
	err := p.members(func(key []byte, at int) *Error { return r.member(p, &seen, key, at) })
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return err
	}
	switch {
	case seen.filter == "":
		return missing(fieldFilter, fieldFilterShort)
	case seen.list == "" && form != Settle:
		return missing(fieldList, fieldListShort)
	case form == Reserve && seen.lease == "":
		return &Error{MissingField, -1, -1, "member " + fieldLease + " is missing: for how many seconds the items are to be reserved"}
	case form == Settle && seen.reservation == "":
		return &Error{MissingField, -1, -1, "member " + fieldReservation + " is missing: what the answer to the reserve call has under that name"}
	}
	r.NoList = seen.list == ""
	return nil
}

func missing(field, short string) *Error {
	return &Error{MissingField, -1, -1, "member " + field + " (or " + short + ") is missing"}
}

// fields are the members that were found, each with the name that was used.
type fields struct {
	form                                                     Form
	filter, list, token, expire, invalid, lease, reservation string
}

// named returns the field that has this key, and the name; nil for an unknown key.
func (f *fields) named(key []byte) (field *string, name string) {
	switch string(key) {
	case fieldFilter:
		return &f.filter, fieldFilter
	case fieldFilterShort:
		return &f.filter, fieldFilterShort
	case fieldList:
		return &f.list, fieldList
	case fieldListShort:
		return &f.list, fieldListShort
	case fieldToken:
		return &f.token, fieldToken
	case fieldExpire:
		return &f.expire, fieldExpire
	case fieldInvalid:
		return &f.invalid, fieldInvalid
	case fieldLease:
		if f.form == Reserve {
			return &f.lease, fieldLease
		}
	case fieldReservation:
		if f.form != Plain {
			return &f.reservation, fieldReservation
		}
	}
	return nil, ""
}

// more returns what an error adds to the list of known members.
func (f *fields) more() string {
	switch f.form {
	case Reserve:
		return ", " + fieldLease + ", " + fieldReservation
	case Settle:
		return ", " + fieldReservation
	}
	return ""
}

// member parses the value of a key, which begins at offset at.
func (r *Request) member(p *parser, seen *fields, key []byte, at int) *Error {
	met, name := seen.named(key)
	switch {
	case met == nil:
		return p.fault(UnknownField, at, "member %q is unknown; known are %s (or %s), %s (or %s), %s, %s, %s%s",
			shown(key), fieldFilter, fieldFilterShort, fieldList, fieldListShort, fieldToken, fieldExpire, fieldInvalid, seen.more())
	case *met == name:
		return p.fault(DuplicateField, at, "member %s appears twice", name)
	case *met != "":
		return p.fault(DuplicateField, at, "%s and %s are two names of one member: give one of them", *met, name)
	}
	*met = name
	if err := p.colon(); err != nil {
		return err
	}
	switch met {
	case &seen.filter:
		return r.filter(p, name)
	case &seen.list:
		return r.items(p, name)
	case &seen.token:
		return r.token(p)
	case &seen.invalid:
		return r.invalid(p)
	case &seen.lease:
		return r.lease(p)
	case &seen.reservation:
		return r.reservation(p, seen.form)
	}
	return r.expire(p)
}

func (r *Request) filter(p *parser, field string) *Error {
	const want = "an integer or a string that is not empty"
	at := p.pos
	kind, err := p.kind()
	switch {
	case err != nil:
		return err
	case kind == "a string":
		name, err := p.short()
		if err != nil {
			return err
		}
		if len(name) == 0 {
			return p.wrongType(field, at, "an empty string", want)
		}
		r.lastFilter = same(r.lastFilter, name)
	case kind == "a number":
		n, err := p.integerMember(field, want)
		if err != nil {
			return err
		}
		var decimal [20]byte
		r.lastFilter = same(r.lastFilter, strconv.AppendInt(decimal[:0], n, 10))
	default:
		return p.wrongType(field, at, kind, want)
	}
	r.Filter = r.lastFilter
	return nil
}

func (r *Request) token(p *parser) *Error {
	if null, err := p.expect("a string", true, WrongType, fieldToken, "a string or null"); null || err != nil {
		return err
	}
	token, err := p.short()
	if err != nil {
		return err
	}
	r.lastToken = same(r.lastToken, token)
	r.Token = r.lastToken
	return nil
}

func (r *Request) invalid(p *parser) *Error {
	const want = `"` + InvalidReject + `", "` + InvalidSkip + `" or null`
	at := p.pos
	if null, err := p.expect("a string", true, WrongType, fieldInvalid, want); null || err != nil {
		return err
	}
	value, err := p.short()
	switch {
	case err != nil:
		return err
	case string(value) == InvalidSkip:
		r.Skip = true
		return nil
	case string(value) == InvalidReject:
		return nil
	}
	return p.wrongType(fieldInvalid, at, fmt.Sprintf("%q", shown(value)), want)
}

func (r *Request) expire(p *parser) (err *Error) {
	if null, err := p.expect("a number", true, ExpireInvalid, fieldExpire, "a number of seconds or null"); null || err != nil {
		return err
	}
	r.HasExpire = true
	r.Expire, err = p.seconds(fieldExpire, ExpireInvalid)
	return err
}

// seconds parses a number.
func (p *parser) seconds(field, code string) (float64, *Error) {
	at := p.pos
	lit, _, err := p.number()
	if err != nil {
		return 0, err
	}
	seconds, bad := strconv.ParseFloat(string(lit), 64)
	if bad != nil { // the grammar was checked: out of range
		return 0, p.fault(code, at, "%s: found the number %s, want seconds", field, shown(lit))
	}
	return seconds, nil
}

// Seconds parses the text of a number as the member expire is parsed. An error is an *Error.
func Seconds(text string) (float64, error) {
	p := parser{body: []byte(text), item: -1}
	if text != "" {
		lit, _, err := p.number()
		if seconds, bad := strconv.ParseFloat(string(lit), 64); err == nil && bad == nil && p.pos == len(text) {
			return seconds, nil
		}
	}
	return 0, &Error{ExpireInvalid, -1, -1, fmt.Sprintf("expire: found %q, want a number of seconds", shown([]byte(text)))}
}

func (r *Request) items(p *parser, field string) *Error {
	if _, err := p.expect("an array", false, WrongType, field, "an array"); err != nil {
		return err
	}
	return p.array()
}

func (r *Request) lease(p *parser) (err *Error) {
	if _, err := p.expect("a number", false, LeaseInvalid, fieldLease, "a number of seconds"); err != nil {
		return err
	}
	r.Lease, err = p.seconds(fieldLease, LeaseInvalid)
	return err
}

func (r *Request) reservation(p *parser, form Form) *Error {
	const want = "a string of 32 hexadecimal digits, all at random"
	at := p.pos
	if _, err := p.expect("a string", false, WrongType, fieldReservation, "a string"); err != nil {
		return err
	}
	text, err := p.short()
	if err != nil {
		return err
	}
	if form == Reserve && string(text) == nothingReserved {
		return nil // the answer to a call that took nothing: it names none
	}
	if form == Reserve && !canName(text) {
		return p.wrongType(fieldReservation, at, "another string", want)
	}
	r.Reservation = string(text)
	return nil
}

// nothingReserved is the reservation in the answer to a call that took nothing.
const nothingReserved = "00000000000000000000000000000000"

// canName tells whether a caller may give a reservation this name. Stores identify a reservation
// by the two halves of its name, neither of which is 0.
func canName(text []byte) bool {
	zeros := []byte("0000000000000000")
	return len(text) == 32 && len(bytes.Trim(text, "0123456789abcdef")) == 0 && !bytes.HasPrefix(text, zeros) && !bytes.HasSuffix(text, zeros)
}
