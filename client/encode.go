package client

import (
	"bytes"
	"encoding/binary"
	"strconv"
)

// request is the JSON body of a filter or check call. The daemon sends new items
// back as the text it received, so the place of each item in the body is kept and the
// answer is read by comparing (see parseFresh).
type request struct {
	body []byte
	ends []int // where the text of item i ends in body; it begins one after the last end
	list int   // where the text of item 0 begins
}

// encode writes items as they are: bytes that are no UTF-8 are sent too, and the daemon
// refuses them with their index. (encoding/json would replace them, so that different
// items would become one.)
func encode(typ string, items []string) request {
	size := 64 + len(typ)
	for _, item := range items {
		size += len(item) + 3
	}
	r := request{body: make([]byte, 0, size), ends: make([]int, len(items))}
	r.body = append(r.body, `{"filter_typeid":`...)
	r.body = appendType(r.body, typ)
	r.body = append(r.body, `,"uri_list":[`...)
	r.list = len(r.body)
	for i, item := range items {
		if i > 0 {
			r.body = append(r.body, ',')
		}
		r.body = appendString(r.body, item)
		r.ends[i] = len(r.body)
	}
	r.body = append(r.body, "]}"...)
	return r
}

func (r *request) text(i int) []byte {
	begin := r.list
	if i > 0 {
		begin = r.ends[i-1] + 1
	}
	return r.body[begin:r.ends[i]]
}

// appendType writes the name of a filter, or its id as a number.
func appendType(dst []byte, typ string) []byte {
	if id, err := strconv.ParseUint(typ, 10, 31); err == nil {
		return strconv.AppendUint(dst, id, 10)
	}
	return appendString(dst, typ)
}

// appendString writes s as a JSON string, escaping only what must be.
func appendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	begin := len(dst)
	dst = append(dst, s...)
	if at := special(dst[begin:]); at < len(s) {
		dst = dst[:begin+at]
		dst = appendEscaped(dst, s[at:])
	}
	return append(dst, '"')
}

// special finds the first byte of b that needs an escape, eight at a time.
func special(b []byte) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	i := 0
	for ; i+8 <= len(b); i += 8 {
		w := binary.LittleEndian.Uint64(b[i:])
		quote, back := w^(ones*'"'), w^(ones*'\\')
		// The high bit of each byte: below 0x20, or zero after the XOR.
		hit := (w - ones*0x20) & ^w
		hit |= (quote - ones) & ^quote
		hit |= (back - ones) & ^back
		if hit&highs != 0 {
			break // borrows may only set bits above a true hit
		}
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

func appendEscaped(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c == '\r':
			dst = append(dst, '\\', 'r')
		case c == '\t':
			dst = append(dst, '\\', 't')
		case c < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// parseFresh reads the answer to r without decoding it: its list is a subsequence of
// the texts of r, so one pass over both finds which items came back. ok is false for an
// answer that is written in any other way; it may still be right.
func (r *request) parseFresh(answer []byte, items []string) (result FilterResult[string], ok bool) {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"uri_list":[`))
	if !ok {
		return result, false
	}
	result.URIList = make([]string, 0, bytes.Count(rest, []byte(`","`))+1)
	for next := 0; len(rest) > 0 && (rest[0] != ']' || next > 0); {
		for next < len(items) && !startsWithItem(rest, r.text(next)) {
			next++
		}
		if next == len(items) {
			return result, false
		}
		result.URIList = append(result.URIList, items[next])
		rest = rest[len(r.text(next)):]
		if next++; rest[0] == ']' {
			break
		}
		rest = rest[1:] // the comma, so that an item must follow
	}
	var good [3]bool
	rest, good[0] = bytes.CutPrefix(rest, []byte(`],"total":`))
	result.Total, rest, good[1] = leadingInt(rest)
	rest, good[2] = bytes.CutPrefix(rest, []byte(`,"duplicates":`))
	result.Duplicates, rest, ok = leadingInt(rest)
	return result, ok && good == [3]bool{true, true, true} && string(bytes.TrimSpace(rest)) == "}"
}

func startsWithItem(rest, text []byte) bool {
	return len(rest) > len(text) && (rest[len(text)] == ',' || rest[len(text)] == ']') &&
		bytes.Equal(rest[:len(text)], text)
}

func leadingInt(b []byte) (value int, rest []byte, ok bool) {
	for ok = false; len(b) > 0 && b[0] >= '0' && b[0] <= '9' && value < 1<<40; b = b[1:] {
		value, ok = value*10+int(b[0]-'0'), true
	}
	return value, b, ok
}
