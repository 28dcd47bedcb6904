package items

import (
	"math"
	"slices"
	"unsafe"
)

// Document is a text with an id.
type Document struct {
	ID   string
	Text string // a part of the body, or of what the NearRequest keeps
}

// NearLimits bound what one request of documents may hold; 0 is no limit.
type NearLimits struct {
	Documents int
	TextBytes int // of one text
	IDBytes   int // of one id
}

// NearRequest is the body of a near call. The zero value is ready for use. It is not safe for
// concurrent use.
type NearRequest struct {
	Filter   string // name, or id in decimal
	Token    string // "" if none was sent
	Distance int    // -1: the body says nothing
	Limit    int    // -1: the body says nothing
	Remember bool   // true, unless the body says false
	// Documents refer to the body, which must not change.
	Documents []Document

	head  Request // reads the members that bodies of lists have, too
	texts []span  // of Documents
	ids   map[string]int
}

// span is a text: of the body, or of the arena.
type span struct {
	start, end int
	arena      bool
}

// The members of a request, and of a document.
const (
	fieldDocuments = "documents"
	fieldDistance  = "distance"
	fieldLimit     = "limit"
	fieldRemember  = "remember"
	fieldID        = "id"
	fieldText      = "text"
)

// nearFields are the members of a request, as an error lists them.
var nearFields = fieldFilter + " (or " + fieldFilterShort + "), " + fieldDocuments + ", " + fieldDistance + ", " + fieldLimit + ", " + fieldRemember + ", " + fieldToken

// Reset empties the request and releases the body.
func (r *NearRequest) Reset() { *r = NearRequest{} }

// Decode reads body, which it does not copy, into r. An error is an *Error, and leaves r empty.
func (r *NearRequest) Decode(body []byte, lim NearLimits) error {
	r.Reset()
	r.Distance, r.Limit, r.Remember, r.ids = -1, -1, true, map[string]int{}
	if len(body) > math.MaxUint32 {
		return &Error{MalformedJSON, -1, -1, "body of 4 GiB or more"}
	}
	p := parser{body: body, list: &r.head.List, item: -1}
	if err := r.decode(&p, lim); err != nil {
		r.Reset()
		return err
	}
	r.Filter, r.Token = r.head.Filter, r.head.Token
	arena := r.head.List.arena // which no longer grows
	for i, s := range r.texts {
		from := body
		if s.arena {
			from = arena
		}
		r.Documents[i].Text = unsafe.String(unsafe.SliceData(from[s.start:]), s.end-s.start)
	}
	r.texts, r.ids = nil, nil // as large as the rest
	return nil
}

func (r *NearRequest) decode(p *parser, lim NearLimits) *Error {
	var seen []string
	err := p.members(func(key []byte, at int) *Error {
		name := string(key)
		if err := p.colon(); err != nil {
			return err
		}
		if slices.Contains(seen, name) {
			return p.fault(DuplicateField, at, "member %s appears twice", name)
		}
		seen = append(seen, name)
		switch name {
		case fieldFilter, fieldFilterShort:
			if slices.Contains(seen, fieldFilter) && slices.Contains(seen, fieldFilterShort) {
				return p.fault(DuplicateField, at, "%s and %s are two names of one member: give one of them", fieldFilter, fieldFilterShort)
			}
			return r.head.filter(p, name)
		case fieldToken:
			return r.head.token(p)
		case fieldDocuments:
			return r.documents(p, lim)
		case fieldDistance:
			return p.whole(name, DistanceInvalid, &r.Distance)
		case fieldLimit:
			return p.whole(name, LimitInvalid, &r.Limit)
		case fieldRemember:
			return r.remember(p)
		}
		return p.fault(UnknownField, at, "member %q is unknown; known are %s", shown(key), nearFields)
	})
	switch {
	case err != nil:
		return err
	case !slices.Contains(seen, fieldFilter) && !slices.Contains(seen, fieldFilterShort):
		return missing(fieldFilter, fieldFilterShort)
	case !slices.Contains(seen, fieldDocuments):
		return &Error{MissingField, -1, -1, "member " + fieldDocuments + ` is missing: a list of {"id": "...", "text": "..."}`}
	}
	return p.end()
}

// whole parses null or a number, which must be whole and 0 or more.
func (p *parser) whole(field, code string, into *int) *Error {
	at := p.pos
	if null, err := p.expect("a number", true, code, field, "a whole number or null"); null || err != nil {
		return err
	}
	lit, isWhole, err := p.number()
	if err != nil {
		return err
	}
	n, ok := integer(lit, isWhole)
	if !ok || n < 0 || n > math.MaxInt32 {
		return p.fault(code, at, "%s: found the number %s, want a whole number, 0 or more", field, shown(lit))
	}
	*into = int(n)
	return nil
}

func (r *NearRequest) remember(p *parser) *Error {
	if null, err := p.expect("a boolean", true, WrongType, fieldRemember, "true, false or null"); null || err != nil {
		return err
	}
	r.Remember = p.body[p.pos] == 't'
	return p.boolean()
}

func (r *NearRequest) documents(p *parser, lim NearLimits) *Error {
	if _, err := p.expect("an array", false, WrongType, fieldDocuments, "an array"); err != nil {
		return err
	}
	p.pos++
	if p.space() == ']' {
		p.pos++
		return nil
	}
	for {
		p.space()
		p.item = len(r.Documents)
		if lim.Documents > 0 && p.item >= lim.Documents {
			return p.fault(TooManyItems, p.pos, "more than %d documents, which is limits.items; send them in several calls", lim.Documents)
		}
		if err := r.document(p, lim); err != nil {
			return err
		}
		p.item = -1
		switch p.space() {
		case ',':
			p.pos++
		case ']':
			p.pos++
			return nil
		default:
			return p.unexpected("a comma or the end of the list")
		}
	}
}

// document parses one document.
func (r *NearRequest) document(p *parser, lim NearLimits) *Error {
	start := p.pos
	if _, err := p.expect("an object", false, WrongType, "document", `{"id": "...", "text": "..."}`); err != nil {
		return err
	}
	var doc Document
	var text *span
	hasID := false
	err := p.members(func(key []byte, at int) *Error {
		name := string(key)
		if err := p.colon(); err != nil {
			return err
		}
		if name != fieldID && name != fieldText {
			return p.fault(UnknownField, at, "a document's member %q is unknown; known are %s and %s", shown(key), fieldID, fieldText)
		}
		if name == fieldID && hasID || name == fieldText && text != nil {
			return p.fault(DuplicateField, at, "member %s appears twice", name)
		}
		value := p.pos
		if _, err := p.expect("a string", false, WrongType, name, "a string"); err != nil {
			return err
		}
		if name == fieldID {
			hasID = true
			id, err := p.short()
			doc.ID = string(id)
			return err
		}
		l := p.list
		from := len(l.arena)
		plain, arena, err := p.text(l.arena)
		l.arena = arena
		if text = (&span{from, len(arena), true}); plain != nil {
			text = &span{value + 1, p.pos - 1, false}
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case !hasID:
		return p.fault(MissingField, start, "a document without the member %s", fieldID)
	case text == nil:
		return p.fault(MissingField, start, "a document without the member %s", fieldText)
	case doc.ID == "":
		return p.fault(IDInvalid, start, "an empty id")
	case lim.IDBytes > 0 && len(doc.ID) > lim.IDBytes:
		return p.fault(IDInvalid, start, "an id of %d bytes, want %d at most", len(doc.ID), lim.IDBytes)
	case lim.TextBytes > 0 && text.end-text.start > lim.TextBytes:
		return p.fault(TextTooLarge, start, "a text of %d bytes; limits.text_bytes is %d", text.end-text.start, lim.TextBytes)
	}
	if before, there := r.ids[doc.ID]; there {
		return p.fault(DuplicateID, start, "the id of document %d, too: send it in a call of its own, or once", before)
	}
	r.ids[doc.ID] = p.item
	r.Documents, r.texts = append(r.Documents, doc), append(r.texts, *text)
	return nil
}
