package items

import (
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// canonizer holds what is known about the objects in one item. The item is first written
// to the arena with its members in the order sent; only if some object's keys are not
// sorted is it written a second time, in order. So no byte is copied more than twice,
// however deeply the item is nested.
type canonizer struct {
	keys    []byte   // the keys, unescaped, one after the other
	open    []member // of the objects that are not closed yet, outermost first
	members []member // of the closed objects, each object's together and sorted
	objects []object // in the order in which they open
	mixed   bool     // some object's keys were not sorted
	out     []byte
}

// member is a key and its value. All places except that of the key's text are in the arena.
type member struct {
	key, keyEnd     int // in canonizer.keys
	start, val, end int // `"key":` from start to val, the value from val to end
	object          int // the first object that opens at or after val
}

type object struct {
	start, end          int // in the arena, braces included
	members, membersEnd int // in canonizer.members
	next                int // the first object that opens after this one is closed
}

func (c *canonizer) reset() {
	c.keys, c.open, c.members, c.objects = c.keys[:0], c.open[:0], c.members[:0], c.objects[:0]
	c.mixed = false
}

// trim releases the memory that one very large item has left behind.
func (c *canonizer) trim() {
	const keepMembers = 1 << 14
	if cap(c.keys) > keepBytes || cap(c.out) > keepBytes ||
		max(cap(c.open), cap(c.members), cap(c.objects)) > keepMembers {
		*c = canonizer{}
	}
}

// canonical parses an array or object and appends its RFC 8785 form to the arena.
func (p *parser) canonical(depth int) *Error {
	l, c, at := p.list, &p.list.canon, len(p.list.arena)
	c.reset()
	if err := p.nested(depth, at); err != nil {
		return err
	}
	if c.mixed {
		c.out = c.write(c.out[:0], l.arena, at, len(l.arena), 0)
		copy(l.arena[at:], c.out)
	}
	return nil
}

// nested parses any value and appends it to the arena, members in the order sent.
// The item began at arena[at].
func (p *parser) nested(depth, at int) *Error {
	l := p.list
	if p.pos == len(p.body) {
		return p.unexpected("a value")
	}
	start := p.pos
	switch c := p.body[start]; {
	case c == '"':
		if err := p.quoted(); err != nil {
			return err
		}
	case c == '-', isDigit(c):
		lit, whole, err := p.number()
		if err != nil {
			return err
		}
		if l.arena, err = p.appendNumber(l.arena, lit, whole); err != nil {
			return err
		}
	case c == '[', c == '{':
		if depth == maxDepth {
			return p.fault(MalformedJSON, start, "nested deeper than %d", maxDepth)
		}
		if c == '[' {
			return p.elements(depth+1, at)
		}
		return p.object(depth+1, at)
	case c == 't', c == 'f':
		if err := p.boolean(); err != nil {
			return err
		}
		l.arena = append(l.arena, p.body[start:p.pos]...)
	case c == 'n':
		if err := p.word("null"); err != nil {
			return err
		}
		l.arena = append(l.arena, "null"...)
	default:
		return p.unexpected("a value")
	}
	if p.lim.itemTooLarge(len(l.arena) - at) {
		return p.tooLarge(start)
	}
	return nil
}

// quoted parses a string and appends its canonical form, quotes included.
func (p *parser) quoted() *Error {
	_, err := p.quotedKey(false)
	return err
}

// quotedKey is quoted that also keeps the unescaped text if keep is set, and returns
// where in canonizer.keys it begins.
func (p *parser) quotedKey(keep bool) (key int, err *Error) {
	l, c := p.list, &p.list.canon
	start, key := p.pos, len(c.keys)
	plain, keys, err := p.text(c.keys)
	c.keys = keys
	switch {
	case err != nil:
		return 0, err
	case plain != nil:
		l.arena = append(l.arena, p.body[start:p.pos]...)
		c.keys = append(c.keys, plain...)
	default:
		l.arena = appendQuoted(l.arena, c.keys[key:])
	}
	if !keep {
		c.keys = c.keys[:key]
	}
	return key, nil
}

func (p *parser) elements(depth, at int) *Error {
	l := p.list
	l.arena = append(l.arena, '[')
	p.pos++
	if p.space() != ']' {
		for more := true; more; {
			if err := p.nested(depth, at); err != nil {
				return err
			}
			switch p.space() {
			case ',':
				l.arena = append(l.arena, ',')
				p.pos++
				p.space()
			case ']':
				more = false
			default:
				return p.unexpected("a comma or the end of the array")
			}
		}
	}
	l.arena = append(l.arena, ']')
	p.pos++
	return nil
}

func (p *parser) object(depth, at int) *Error {
	l, c, begin := p.list, &p.list.canon, p.pos
	id, mine := len(c.objects), len(c.open)
	c.objects = append(c.objects, object{start: len(l.arena)})
	l.arena = append(l.arena, '{')
	p.pos++
	if p.space() != '}' {
		for more := true; more; {
			m := member{start: len(l.arena)}
			if p.pos == len(p.body) || p.body[p.pos] != '"' {
				return p.unexpected("a key")
			}
			var err *Error
			if m.key, err = p.quotedKey(true); err != nil {
				return err
			}
			m.keyEnd = len(c.keys)
			if p.space() != ':' {
				return p.unexpected("a colon")
			}
			p.pos++
			p.space()
			l.arena = append(l.arena, ':')
			m.val, m.object = len(l.arena), len(c.objects)
			if err := p.nested(depth, at); err != nil {
				return err
			}
			m.end = len(l.arena)
			c.open = append(c.open, m)
			switch p.space() {
			case ',':
				l.arena = append(l.arena, ',')
				p.pos++
				p.space()
			case '}':
				more = false
			default:
				return p.unexpected("a comma or the end of the object")
			}
		}
	}
	l.arena = append(l.arena, '}')
	p.pos++
	if twice, ok := c.closeObject(id, mine, len(l.arena)); !ok {
		return p.fault(InvalidItem, begin, "key %q twice in an object", shown(twice))
	}
	return nil
}

// closeObject sorts the members open[mine:] of an object and moves them to members.
// ok is false if a key appears twice, and twice is that key.
func (c *canonizer) closeObject(id, mine, end int) (twice []byte, ok bool) {
	compare := func(a, b member) int {
		return compareUTF16(c.keys[a.key:a.keyEnd], c.keys[b.key:b.keyEnd])
	}
	own := c.open[mine:]
	if !slices.IsSortedFunc(own, compare) {
		c.mixed = true
		slices.SortFunc(own, compare)
	}
	for i := 1; i < len(own); i++ {
		if compare(own[i-1], own[i]) == 0 {
			return c.keys[own[i].key:own[i].keyEnd], false
		}
	}
	o := &c.objects[id]
	o.end, o.next = end, len(c.objects)
	o.members = len(c.members)
	c.members = append(c.members, own...)
	o.membersEnd = len(c.members)
	c.open = c.open[:mine]
	return nil, true
}

// write appends text[from:to], the members of each object in it sorted.
// o is the first object that opens at or after from.
func (c *canonizer) write(dst, text []byte, from, to, o int) []byte {
	for o < len(c.objects) && c.objects[o].start < to {
		ob := c.objects[o]
		dst = append(append(dst, text[from:ob.start]...), '{')
		for i, m := range c.members[ob.members:ob.membersEnd] {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(dst, text[m.start:m.val]...)
			dst = c.write(dst, text, m.val, m.end, m.object)
		}
		dst = append(dst, '}')
		from, o = ob.end, ob.next
	}
	return append(dst, text[from:to]...)
}

// compareUTF16 orders UTF-8 texts by their UTF-16 code units. That is the order of
// the bytes, except that the characters from U+10000 on, which UTF-16 writes with
// surrogates (0xD800...), come before U+E000 to U+FFFF.
func compareUTF16(a, b []byte) int {
	for i := range min(len(a), len(b)) {
		if x, y := a[i], b[i]; x != y {
			if x >= 0xee && y >= 0xee && (x >= 0xf0) != (y >= 0xf0) {
				x, y = y, x
			}
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// AppendString appends s, which is UTF-8, as a JSON string.
func AppendString(dst []byte, s string) []byte { return appendQuoted(dst, []byte(s)) }

// appendQuoted appends s as RFC 8785 writes a string: only what must be is escaped.
func appendQuoted(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for {
		i := scan.TextEnd(s, 0)
		dst = append(dst, s[:i]...)
		if i == len(s) {
			return append(dst, '"')
		}
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[i+1:]
	}
}
