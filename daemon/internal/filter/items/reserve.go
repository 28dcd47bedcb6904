package items

import "bytes"

// ofForm is named for the members that only requests of one form have.
func (f *fields) ofForm(key []byte) (field *string, name string) {
	switch {
	case f.form == Reserve && string(key) == fieldLease:
		return &f.lease, fieldLease
	case f.form != Plain && string(key) == fieldReservation:
		return &f.reservation, fieldReservation
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

// complete says which member of the form is missing.
func (f *fields) complete() *Error {
	switch {
	case f.form == Reserve && f.lease == "":
		return &Error{MissingField, -1, -1, "member " + fieldLease + " is missing: for how many seconds the items are to be reserved"}
	case f.form == Settle && f.reservation == "":
		return &Error{MissingField, -1, -1, "member " + fieldReservation + " is missing: what the answer to the reserve call has under that name"}
	}
	return nil
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
