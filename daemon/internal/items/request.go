package items

import (
	"fmt"
	"math"
	"strconv"
)

// Request is the body of a filter or check call. The zero value is ready for use, and
// one that is used again allocates nothing for a body of the same shape.
// It is not safe for concurrent use.
type Request struct {
	Filter    string  // name, or id in decimal
	Token     string  // "" if none was sent
	Expire    float64 // seconds; any number, also a negative one
	HasExpire bool
	List      List // refers to the body

	// The strings of the last body, which the next one most often repeats.
	lastFilter, lastToken string
}

// The members of a request.
const (
	fieldFilter = "filter_typeid"
	fieldList   = "uri_list"
	fieldToken  = "access_token"
	fieldExpire = "expire"
)

// Reset empties the request and lets go of the body.
func (r *Request) Reset() {
	r.Filter, r.Token, r.Expire, r.HasExpire = "", "", 0, false
	r.List.Reset()
}

// Decode reads body, which it does not copy, into r. An error is an *Error, and
// leaves r empty.
func (r *Request) Decode(body []byte, lim Limits) error {
	r.Reset()
	if len(body) > math.MaxUint32 {
		return &Error{MalformedJSON, -1, -1, fmt.Sprintf("body of %d bytes, want less than 4 GiB", len(body))}
	}
	r.List.body = body
	p := parser{body: body, list: &r.List, lim: lim, item: -1}
	if err := r.decode(&p); err != nil {
		r.Reset()
		return err
	}
	return nil
}

func (r *Request) decode(p *parser) *Error {
	if p.space() != '{' {
		return p.unexpected("an object")
	}
	p.pos++
	if p.space() == '}' {
		return missing(fieldFilter)
	}
	var seen fields
	for {
		if err := r.member(p, &seen); err != nil {
			return err
		}
		switch p.space() {
		case ',':
			p.pos++
			p.space()
			continue
		case '}':
		default:
			return p.unexpected("a comma or the end of the object")
		}
		break
	}
	p.pos++
	if err := p.end(); err != nil {
		return err
	}
	switch {
	case !seen.filter:
		return missing(fieldFilter)
	case !seen.list:
		return missing(fieldList)
	}
	return nil
}

func missing(field string) *Error {
	return &Error{MissingField, -1, -1, "member " + field + " is missing"}
}

// fields is a set of members.
type fields struct{ filter, list, token, expire bool }

// named is the one of the fields that has this key; nil for an unknown one.
func (f *fields) named(key []byte) *bool {
	switch string(key) {
	case fieldFilter:
		return &f.filter
	case fieldList:
		return &f.list
	case fieldToken:
		return &f.token
	case fieldExpire:
		return &f.expire
	}
	return nil
}

// member takes one key and its value.
func (r *Request) member(p *parser, seen *fields) *Error {
	at := p.pos
	if at == len(p.body) || p.body[at] != '"' {
		return p.unexpected("a key")
	}
	key, err := p.short()
	if err != nil {
		return err
	}
	met := seen.named(key)
	switch {
	case met == nil:
		return p.fault(UnknownField, at, "member %q is unknown; known are %s, %s, %s, %s",
			shown(key), fieldFilter, fieldList, fieldToken, fieldExpire)
	case *met:
		return p.fault(DuplicateField, at, "member %s is there twice", key)
	}
	*met = true
	if p.space() != ':' {
		return p.unexpected("a colon")
	}
	p.pos++
	p.space()
	switch met {
	case &seen.filter:
		return r.filter(p)
	case &seen.list:
		return r.items(p)
	case &seen.token:
		return r.token(p)
	}
	return r.expire(p)
}

func (r *Request) filter(p *parser) *Error {
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
			return p.wrongType(fieldFilter, at, "an empty string", want)
		}
		r.lastFilter = same(r.lastFilter, name)
	case kind == "a number":
		n, err := p.integerMember(fieldFilter, want)
		if err != nil {
			return err
		}
		var decimal [20]byte
		r.lastFilter = same(r.lastFilter, strconv.AppendInt(decimal[:0], n, 10))
	default:
		return p.wrongType(fieldFilter, at, kind, want)
	}
	r.Filter = r.lastFilter
	return nil
}

func (r *Request) token(p *parser) *Error {
	at := p.pos
	kind, err := p.kind()
	switch {
	case err != nil:
		return err
	case kind == "a string":
		token, err := p.short()
		if err != nil {
			return err
		}
		r.lastToken = same(r.lastToken, token)
		r.Token = r.lastToken
		return nil
	case kind == "null":
		return p.word("null")
	}
	return p.wrongType(fieldToken, at, kind, "a string or null")
}

func (r *Request) expire(p *parser) *Error {
	at := p.pos
	kind, err := p.kind()
	switch {
	case err != nil:
		return err
	case kind == "a number":
		lit, _, err := p.number()
		if err != nil {
			return err
		}
		seconds, bad := strconv.ParseFloat(string(lit), 64)
		if bad != nil { // the grammar was checked: out of range
			return p.fault(ExpireInvalid, at, "expire: found the number %s, want seconds", shown(lit))
		}
		r.Expire, r.HasExpire = seconds, true
		return nil
	case kind == "null":
		return p.word("null")
	}
	return p.fault(ExpireInvalid, at, "expire: found %s, want a number of seconds or null", kind)
}

// Seconds reads the text of a number as the member expire is read. An error is an *Error.
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

func (r *Request) items(p *parser) *Error {
	at := p.pos
	kind, err := p.kind()
	switch {
	case err != nil:
		return err
	case kind != "an array":
		return p.wrongType(fieldList, at, kind, "an array")
	}
	return p.array()
}
