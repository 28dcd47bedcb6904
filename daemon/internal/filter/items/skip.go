package items

import (
	"bytes"
	"encoding/json"
)

// MostFaults is how many of the items that it leaves out a List describes; it counts all of them.
const MostFaults = 100

// Skipped counts the items that were left out of the list because of [Limits.Skip] or a
// request's Skip.
func (l *List) Skipped() int { return len(l.holes) }

// Faults says what is wrong with the first items that were left out, MostFaults at most, in
// order. The result is valid until the list is reused.
func (l *List) Faults() []Error { return l.faults }

// Holes returns, for each item that was left out, how many items of the list come before it,
// in order. The result is valid until the list is reused.
func (l *List) Holes() []uint32 { return l.holes }

// sent counts what the list was decoded from: its items, and those that were left out.
func (l *List) sent() int { return len(l.spans) + len(l.holes) }

// skip notes an item that is left out after those that the list has.
func (l *List) skip(fault *Error) {
	l.holes = append(l.holes, uint32(len(l.spans)))
	if len(l.faults) < MostFaults {
		l.faults = append(l.faults, *fault)
	}
}

// mark is how much a list holds, for rewind to return to.
type mark struct{ spans, wide, arena int }

func (l *List) mark() mark { return mark{len(l.spans), len(l.wide), len(l.arena)} }

func (l *List) rewind(m mark) {
	l.spans, l.wide, l.arena = l.spans[:m.spans], l.wide[:m.wide], l.arena[:m.arena]
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
