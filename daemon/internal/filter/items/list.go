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

// MaxFaults is how many of the items that it leaves out a List describes; it counts all of them.
const MaxFaults = 100

// Skipped counts the items that were left out of the list because of [Limits.Skip] or a
// request's Skip.
func (l *List) Skipped() int { return len(l.holes) }

// Faults says what is wrong with the first items that were left out, MaxFaults at most, in
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
	if len(l.faults) < MaxFaults {
		l.faults = append(l.faults, *fault)
	}
}

// mark is how much a list holds, for rewind to return to.
type mark struct{ spans, wide, arena int }

func (l *List) mark() mark { return mark{len(l.spans), len(l.wide), len(l.arena)} }

func (l *List) rewind(m mark) {
	l.spans, l.wide, l.arena = l.spans[:m.spans], l.wide[:m.wide], l.arena[:m.arena]
}

// AppendMarked appends a JSON array of the raw text of those items i whose marks[i] is
// true. The items must be JSON values, not lines; len(marks) must be l.Len().
func (l *List) AppendMarked(dst []byte, marks []bool) []byte {
	dst = append(dst, '[')
	first := true
	for i := 0; i < len(l.spans); i++ {
		if !marks[i] {
			continue
		}
		if !first {
			dst = append(dst, ',')
		}
		first = false
		run := l.rawSpan(i)
		// Neighbours that are both new are copied in one piece, with the comma (and the one
		// space that Python writes) between them.
		for i+1 < len(l.spans) && marks[i+1] {
			next := l.rawSpan(i + 1)
			if l.body[run.End] != ',' || next.Start-run.End > 2 {
				break
			}
			run.End = next.End
			i++
		}
		dst = append(dst, l.body[run.Start:run.End]...)
	}
	return append(dst, ']')
}

// AppendMarkedLines appends the raw text of those items i whose marks[i] is true, each
// ended by LF. The raw text of a value from a JSON body may have line ends in it.
// len(marks) must be l.Len().
func (l *List) AppendMarkedLines(dst []byte, marks []bool) []byte {
	for i := 0; i < len(l.spans); i++ {
		if !marks[i] {
			continue
		}
		run := l.rawSpan(i)
		for i+1 < len(l.spans) && marks[i+1] && l.body[run.End] == '\n' {
			next := l.rawSpan(i + 1)
			if next.Start-run.End != 1 {
				break
			}
			run.End = next.End
			i++
		}
		dst = append(dst, l.body[run.Start:run.End]...)
		dst = append(dst, '\n')
	}
	return dst
}
