package items

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// maxDepth is how deep arrays and objects may be nested, as in encoding/json.
const maxDepth = 10_000

// runLength bounds the spans of one call to the scanner, which cannot be preempted.
const runLength = 4096

// parser walks over one JSON text. Its methods begin at pos and leave pos after what
// they consumed; on an error pos means nothing.
type parser struct {
	body []byte
	pos  int
	list *List
	lim  Limits
	item int // index of the current item; -1 outside the list
}

func (p *parser) fault(code string, offset int, format string, args ...any) *Error {
	return &Error{Code: code, Index: p.item, Offset: int64(offset), Detail: fmt.Sprintf(format, args...)}
}

// unexpected returns the malformed_json for the byte at pos where want should be.
func (p *parser) unexpected(want string) *Error {
	if p.pos >= len(p.body) {
		return p.fault(MalformedJSON, len(p.body), "unexpected end, want %s", want)
	}
	r, n := utf8.DecodeRune(p.body[p.pos:])
	if r == utf8.RuneError && n < 2 {
		return p.fault(MalformedJSON, p.pos, "unexpected byte 0x%02x, want %s", p.body[p.pos], want)
	}
	return p.fault(MalformedJSON, p.pos, "unexpected %q, want %s", r, want)
}

// space skips white space and returns the byte that follows, 0 at the end.
func (p *parser) space() byte {
	for ; p.pos < len(p.body); p.pos++ {
		switch c := p.body[p.pos]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// end consumes what may follow the outermost value: white space.
func (p *parser) end() *Error {
	if p.space(); p.pos < len(p.body) {
		return p.unexpected("nothing more")
	}
	return nil
}

// word parses true, false or null.
func (p *parser) word(w string) *Error {
	for i := range len(w) {
		if p.pos == len(p.body) || p.body[p.pos] != w[i] {
			return p.unexpected(w)
		}
		p.pos++
	}
	return nil
}

// members parses an object. For each key, which begins at offset at, member parses the colon
// and the value.
func (p *parser) members(member func(key []byte, at int) *Error) *Error {
	if p.space() != '{' {
		return p.unexpected("an object")
	}
	p.pos++
	if p.space() == '}' {
		p.pos++
		return nil
	}
	for {
		at := p.pos
		if at == len(p.body) || p.body[at] != '"' {
			return p.unexpected("a key")
		}
		key, err := p.short()
		if err != nil {
			return err
		}
		if err := member(key, at); err != nil {
			return err
		}
		switch p.space() {
		case ',':
			p.pos++
			p.space()
		case '}':
			p.pos++
			return nil
		default:
			return p.unexpected("a comma or the end of the object")
		}
	}
}

// colon consumes a colon and the space after it.
func (p *parser) colon() *Error {
	if p.space() != ':' {
		return p.unexpected("a colon")
	}
	p.pos++
	p.space()
	return nil
}

// array parses the list of items.
func (p *parser) array() *Error {
	p.pos++
	if p.space() == ']' {
		p.pos++
		return nil
	}
	for {
		p.item = p.list.sent()
		if p.lim.Items > 0 && p.item >= p.lim.Items {
			return p.fault(TooManyItems, p.pos, "more than %d items, which is limits.items; send them in several calls", p.lim.Items)
		}
		if !p.plain() {
			start, before := p.pos, p.list.mark()
			if err := p.value(2); err != nil {
				p.list.rewind(before)
				if err = p.pass(start, err); err != nil {
					return err
				}
			}
		}
		p.item = -1
		switch p.space() {
		case ',':
			p.pos++
			p.space()
		case ']':
			p.pos++
			return nil
		default:
			return p.unexpected("a comma or the end of the list")
		}
	}
}

// skippable tells whether a fault is that of one item, and not of the text around it: the list
// continues after an item with such a fault.
func skippable(code string) bool {
	switch code {
	case EmptyItem, NullItem, InvalidItem, ItemTooLarge, InvalidUTF8:
		return true
	}
	return false
}

// pass leaves out the item at start, which has a fault, and moves to the place after it. It
// returns an error if it cannot: the fault itself, or that the item is not JSON.
func (p *parser) pass(start int, fault *Error) *Error {
	if !skippable(fault.Code) {
		return fault
	}
	p.list.skip(fault)
	end := valueEnd(p.body, start)
	if !json.Valid(p.body[start:end]) { // which does not check bytes beyond ASCII
		return p.fault(MalformedJSON, start, "not well-formed JSON, beside another fault")
	}
	p.pos = end
	return nil
}

// valueEnd finds the end of the JSON value at start, as if it were well-formed.
func valueEnd(body []byte, start int) int {
	depth := 0
	for i := start; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			if i = stringEnd(body, i); depth == 0 {
				return i
			}
			i--
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 {
				return i + 1
			}
			if depth < 0 {
				return i
			}
		case ',', ' ', '\t', '\r', '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return len(body)
}

// stringEnd finds the place after the string that opens at start.
func stringEnd(body []byte, start int) int {
	for i := start + 1; ; i += 2 {
		n := bytes.IndexAny(body[i:], `"\`)
		switch {
		case n < 0 || i+n+1 >= len(body):
			return len(body)
		case body[i+n] == '"':
			return i + n + 1
		}
		i += n
		if i+2 > len(body) {
			return len(body)
		}
	}
}

// plain parses the ordinary strings at pos, from item on, as many as it can; it returns false if it parsed none.
func (p *parser) plain() bool {
	if p.pos == len(p.body) || p.body[p.pos] != '"' {
		return false
	}
	l := p.list
	n := len(l.spans)
	l.spans = slices.Grow(l.spans, 1)
	room := min(cap(l.spans)-n, runLength)
	if p.lim.Items > 0 {
		room = min(room, p.lim.Items-p.item)
	}
	limit := p.lim.ItemBytes
	if limit == 0 {
		limit = math.MaxInt
	}
	count, end := scan.PlainRun(p.body, p.pos, l.spans[n:n+room], limit)
	if count == 0 {
		return false
	}
	l.spans = l.spans[:n+count]
	p.pos = end
	return true
}

// value parses one item. depth is how many arrays and objects are open around it.
func (p *parser) value(depth int) *Error {
	l, start, at := p.list, p.pos, len(p.list.arena)
	if start == len(p.body) {
		return p.unexpected("an item")
	}
	var err *Error
	size := 0
	switch c := p.body[start]; {
	case c == '"':
		var plain []byte
		if plain, l.arena, err = p.text(l.arena); err != nil {
			return err
		}
		if size = len(plain) + len(l.arena) - at; size == 0 {
			return p.fault(EmptyItem, start, "empty string")
		}
	case c == 'n':
		if err := p.word("null"); err != nil {
			return err
		}
		return p.fault(NullItem, start, "null is not an item")
	case c == 't', c == 'f':
		if err := p.boolean(); err != nil {
			return err
		}
		size = p.pos - start
	case c == '-', '0' <= c && c <= '9':
		lit, whole, err := p.number()
		if err != nil {
			return err
		}
		if size = len(lit); !isCanonical(lit, whole) {
			if l.arena, err = p.appendNumber(l.arena, lit, whole); err != nil {
				return err
			}
			size = len(l.arena) - at
		}
	case c == '[', c == '{':
		if err := p.canonical(depth); err != nil {
			return err
		}
		size = len(l.arena) - at
	default:
		return p.unexpected("an item")
	}
	if p.lim.itemTooLarge(size) {
		return p.tooLarge(start)
	}
	if len(l.arena) > at {
		l.addWide(start, p.pos, at)
	} else {
		l.add(start, p.pos)
	}
	return nil
}

func (p *parser) tooLarge(start int) *Error {
	return p.fault(ItemTooLarge, start, "more than %d bytes", p.lim.ItemBytes)
}

func (p *parser) boolean() *Error {
	if p.body[p.pos] == 't' {
		return p.word("true")
	}
	return p.word("false")
}

// kind names the type of the value at pos, without consuming it.
func (p *parser) kind() (string, *Error) {
	if p.pos == len(p.body) {
		return "", p.unexpected("a value")
	}
	ahead := *p
	switch c := p.body[p.pos]; {
	case c == '"':
		return "a string", nil
	case c == '-', '0' <= c && c <= '9':
		return "a number", nil
	case c == '[':
		return "an array", nil
	case c == '{':
		return "an object", nil
	case c == 't', c == 'f':
		return "a boolean", ahead.boolean()
	case c == 'n':
		return "null", ahead.word("null")
	}
	return "", p.unexpected("a value")
}

// expect returns an error with a code unless the value at pos is of a kind. An optional one may be null, which it consumes.
func (p *parser) expect(kind string, optional bool, code, field, want string) (null bool, _ *Error) {
	at := p.pos
	found, err := p.kind()
	switch {
	case err != nil || found == kind:
		return false, err
	case optional && found == "null":
		return true, p.word("null")
	}
	return false, p.fault(code, at, "%s: found %s, want %s", field, found, want)
}

func (p *parser) wrongType(field string, offset int, found, want string) *Error {
	return p.fault(WrongType, offset, "%s: found %s, want %s", field, found, want)
}

// short parses a string that is not an item. The result is valid until the arena grows.
func (p *parser) short() ([]byte, *Error) {
	l := p.list
	at := len(l.arena)
	plain, arena, err := p.text(l.arena)
	l.arena = arena[:at]
	if plain == nil {
		plain = arena[at:]
	}
	return plain, err
}

// integerMember parses a number that must be a 64-bit integer.
func (p *parser) integerMember(field, want string) (int64, *Error) {
	at := p.pos
	lit, whole, err := p.number()
	if err != nil {
		return 0, err
	}
	n, ok := integer(lit, whole)
	if !ok {
		return 0, p.wrongType(field, at, "the number "+shown(lit), want)
	}
	return n, nil
}

// same returns b as a string: last itself, if it is equal.
func same(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}

// text parses a string. If it has no escapes, plain is its text, a slice of the body;
// otherwise plain is nil and the text is appended to dst.
func (p *parser) text(dst []byte) (plain, out []byte, err *Error) {
	i := p.pos + 1
	for {
		from := i
		i = scan.PlainEnd(p.body, i)
		if i < len(p.body) && p.body[i] >= utf8.RuneSelf {
			high := i
			i = scan.TextEnd(p.body, i)
			if !utf8.Valid(p.body[high:i]) {
				return nil, dst, p.badUTF8(high, p.body[high:i])
			}
		}
		chunk := p.body[from:i]
		if i == len(p.body) {
			p.pos = i
			return nil, dst, p.unexpected("the end of a string")
		}
		switch p.body[i] {
		case '"':
			if from == p.pos+1 {
				p.pos = i + 1
				return chunk, dst, nil
			}
			p.pos = i + 1
			return nil, append(dst, chunk...), nil
		case '\\':
			dst = append(dst, chunk...)
			for i < len(p.body) && p.body[i] == '\\' {
				if dst, i, err = p.escape(dst, i); err != nil {
					return nil, dst, err
				}
			}
		default:
			return nil, dst, p.fault(MalformedJSON, i, "control character 0x%02x in a string, want it escaped", p.body[i])
		}
	}
}

func (p *parser) badUTF8(from int, chunk []byte) *Error {
	for {
		r, n := utf8.DecodeRune(chunk)
		if r == utf8.RuneError && n == 1 {
			return p.fault(InvalidUTF8, from, "byte 0x%02x is not UTF-8", chunk[0])
		}
		chunk, from = chunk[n:], from+n
	}
}

// escape appends the character of the escape at body[i] and returns the place after it.
func (p *parser) escape(dst []byte, i int) ([]byte, int, *Error) {
	if i+1 == len(p.body) {
		p.pos = i + 1
		return dst, 0, p.unexpected("an escape")
	}
	switch c := p.body[i+1]; c {
	case '"', '\\', '/':
		return append(dst, c), i + 2, nil
	case 'b':
		return append(dst, '\b'), i + 2, nil
	case 'f':
		return append(dst, '\f'), i + 2, nil
	case 'n':
		return append(dst, '\n'), i + 2, nil
	case 'r':
		return append(dst, '\r'), i + 2, nil
	case 't':
		return append(dst, '\t'), i + 2, nil
	case 'u':
	default:
		p.pos = i + 1
		return dst, 0, p.unexpected(`one of "\/bfnrtu after a backslash`)
	}
	r, err := p.hex4(i + 2)
	if err != nil {
		return dst, 0, err
	}
	next := i + 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if next+1 < len(p.body) && p.body[next] == '\\' && p.body[next+1] == 'u' {
			if low, err = p.hex4(next + 2); err != nil {
				return dst, 0, err
			}
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return dst, 0, p.fault(InvalidUTF8, i, "%s is half a surrogate pair", p.body[i:next])
		}
		next += 6
	}
	return utf8.AppendRune(dst, r), next, nil
}

func (p *parser) hex4(i int) (rune, *Error) {
	var r rune
	for j := i; j < i+4; j++ {
		var c byte
		if j < len(p.body) {
			c = p.body[j]
		}
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			p.pos = j
			return 0, p.unexpected("four hexadecimal digits")
		}
		r = r<<4 | rune(c)
	}
	return r, nil
}
