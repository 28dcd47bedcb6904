// Package scan finds, several bytes at a time, where the strings of a JSON text end. It
// judges no escape and no UTF-8: it stops at what needs a second look.
package scan

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at in one word. With every byte of x below 0x80, the high bit
// of a byte of (x^c)-1 says that it is c, and that of x-0x20 that it is a control
// character. A borrow goes only from a byte that is itself a hit to a higher one, so
// the lowest hit is always right.
const (
	ones      = 0x0101010101010101
	highs     = 0x80 * ones
	quotes    = '"' * ones
	slashes   = '\\' * ones
	spaces    = ' ' * ones
	wordBytes = 8
)

// Span is a part of a body, from Start to before End. The assembly knows this layout.
type Span struct{ Start, End uint32 }

// TextEnd returns the index, at or after i, of the first byte of b that is a quote, a
// backslash or a control character; len(b) if there is none.
func TextEnd(b []byte, i int) int {
	for ; i+wordBytes <= len(b); i += wordBytes {
		x := binary.LittleEndian.Uint64(b[i:])
		if m := ((x ^ quotes - ones) | (x ^ slashes - ones) | (x - spaces)) & ^x & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' {
			return i
		}
	}
	return i
}

// PlainEnd is like TextEnd, but also stops at a byte that is not ASCII.
func PlainEnd(b []byte, i int) int {
	for ; i+wordBytes <= len(b); i += wordBytes {
		x := binary.LittleEndian.Uint64(b[i:])
		if m := (x | (x ^ quotes - ones) | (x ^ slashes - ones) | (x - spaces)) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)/8
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c == '"' || c == '\\' || c < ' ' || c >= 0x80 {
			return i
		}
	}
	return i
}

// plainRunGo cuts a run of strings, the first of which opens at body[pos], that need
// no second look: ASCII without escapes, of 1 to most bytes, separated by "," or ", ".
// It fills dst with at most len(dst) spans and returns how many, and the place after
// the last one's closing quote. It leaves the rest to the caller, which must check
// the separator after the run and the value after that.
func plainRunGo(body []byte, pos int, dst []Span, limit int) (count, end int) {
	for count < len(dst) {
		i := PlainEnd(body, pos+1)
		if i == len(body) || body[i] != '"' || i == pos+1 || i-pos-1 > limit {
			break
		}
		end = i + 1
		dst[count] = Span{uint32(pos), uint32(end)}
		count++
		if end+3 > len(body) || body[end] != ',' {
			break
		}
		pos = end + 1
		if body[pos] == ' ' {
			pos++
		}
		if body[pos] != '"' {
			break
		}
	}
	return count, end
}
