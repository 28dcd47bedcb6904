package items

import (
	"slices"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/bloom"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// keepBytes is the largest arena that a List keeps between batches.
const keepBytes = 4 << 20

// List is the items of one batch. The zero value is an empty list, ready for use.
// The next batch reuses its buffers. It refers to the body that it was
// decoded from, which must not change while the list is in use.
// It is not safe for concurrent use.
type List struct {
	body  []byte // what the spans point into
	lines bool   // items are lines of text, not JSON values
	// spans are the raw texts of items in the body. An item whose canonical bytes are not a
	// part of its raw text has End 0, and Start is its place in wide.
	spans []scan.Span
	wide  []wide
	arena []byte // canonical bytes that the body does not hold as they are
	canon canonizer

	holes  []uint32 // of items that were left out: how many of the list come before
	faults []Error  // of the first of them
}

type wide struct {
	raw        scan.Span
	start, end int // in the arena
}

// Reset empties the list and releases the body.
func (l *List) Reset() {
	if cap(l.arena) > keepBytes {
		l.arena = nil
	}
	l.canon.trim()
	*l = List{spans: l.spans[:0], wide: l.wide[:0], arena: l.arena[:0], canon: l.canon, holes: l.holes[:0], faults: l.faults[:0]}
}

// Strings makes the list one of strings: the parts of body that spans name, none of them empty.
// It does not look into them.
func (l *List) Strings(body []byte, spans []scan.Span) {
	l.Reset()
	l.body, l.lines, l.spans = body, true, append(l.spans, spans...)
}

// Len is the number of items.
func (l *List) Len() int { return len(l.spans) }

// Raw is item i as it was sent: the JSON text of the value, quotes included, or the line.
func (l *List) Raw(i int) []byte {
	s := l.rawSpan(i)
	return l.body[s.Start:s.End:s.End]
}

func (l *List) rawSpan(i int) scan.Span {
	s := l.spans[i]
	if s.End == 0 {
		return l.wide[s.Start].raw
	}
	return s
}

// Bytes returns the canonical bytes of item i.
func (l *List) Bytes(i int) []byte {
	s := l.spans[i]
	if s.End == 0 {
		w := l.wide[s.Start]
		return l.arena[w.start:w.end:w.end]
	}
	raw := l.body[s.Start:s.End:s.End]
	if raw[0] == '"' && !l.lines {
		return raw[1 : len(raw)-1 : len(raw)-1]
	}
	return raw
}

// IsString distinguishes strings and lines from other JSON values.
func (l *List) IsString(i int) bool {
	return l.lines || l.body[l.rawSpan(i).Start] == '"'
}

// Keys appends to dst the hashes of the items in [from, to), in order.
func (l *List) Keys(dst []bloom.Hash, seed uint64, from, to int) []bloom.Hash {
	dst = slices.Grow(dst, to-from)
	for i := from; i < to; i++ {
		if l.IsString(i) {
			dst = append(dst, bloom.Sum(seed, l.Bytes(i)))
		} else {
			dst = append(dst, bloom.SumValue(seed, l.Bytes(i)))
		}
	}
	return dst
}

// add appends an item whose canonical bytes are body[start:end] except for its quotes.
func (l *List) add(start, end int) {
	l.spans = append(l.spans, scan.Span{Start: uint32(start), End: uint32(end)})
}

// addWide appends an item whose canonical bytes are the arena from at on.
func (l *List) addWide(start, end, at int) {
	l.spans = append(l.spans, scan.Span{Start: uint32(len(l.wide))})
	l.wide = append(l.wide, wide{scan.Span{Start: uint32(start), End: uint32(end)}, at, len(l.arena)})
}
