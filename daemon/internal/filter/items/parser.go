package items

import (
	"fmt"
	"math"
	"slices"
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

// plain parses the ordinary strings at pos, as many as it can; it returns false if it parsed none.
func (p *parser) plain() bool {
	if p.pos == len(p.body) || p.body[p.pos] != '"' {
		return false
	}
	l := p.list
	n := len(l.spans)
	l.spans = slices.Grow(l.spans, 1)
	room := min(cap(l.spans)-n, runLength)
	if p.lim.Items > 0 {
		room = min(room, p.lim.Items-l.sent())
	}
	most := p.lim.ItemBytes
	if most == 0 {
		most = math.MaxInt
	}
	count, end := scan.PlainRun(p.body, p.pos, l.spans[n:n+room], most)
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
