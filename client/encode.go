package client

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"sync"
)

// request is the JSON body of a filter or check call. The daemon returns new items
// exactly as the text it received, so request keeps the position of each item in the
// body, and the answer is read by comparison (see parseFresh).
type request struct {
	body   []byte
	ends   []int  // where the text of item i ends in body; it begins one after the last end
	list   int    // where the text of item 0 begins
	answer []byte // buffer for the answer
}

// requests are reused: allocating and collecting the memory of a batch takes about as
// long as filling it.
var requests = sync.Pool{New: func() any { return new(request) }}

func (c *Client) encode(typ string, items []string, o callOptions) *request {
	c.mustBeMade()
	r := requests.Get().(*request)
	r.encode(typ, items, o)
	return r
}

// release returns r for reuse, unless net/http sent it, which may read a body after the call.
func (c *Client) release(r *request) {
	if c.quick != nil {
		requests.Put(r)
	}
}

// encode writes items as they are: bytes that are not UTF-8 are sent too, and the daemon
// refuses them with their index. (encoding/json would replace them, so that different
// items would become one.)
func (r *request) encode(typ string, items []string, o callOptions) {
	size := 128 + len(typ)
	for _, item := range items {
		size += len(item) + 3
	}
	r.body = append(appendHead(slices.Grow(r.body[:0], size), typ, o), '[')
	r.ends = slices.Grow(r.ends[:0], len(items))[:len(items)]
	r.list = len(r.body)
	for i, item := range items {
		if i > 0 {
			r.body = append(r.body, ',')
		}
		r.body = appendString(r.body, item)
		r.ends[i] = len(r.body)
	}
	r.body = append(r.body, "]}"...)
}

func (r *request) text(i int) []byte {
	begin := r.list
	if i > 0 {
		begin = r.ends[i-1] + 1
	}
	return r.body[begin:r.ends[i]]
}

// appendHead writes what comes before the list.
func appendHead(dst []byte, typ string, o callOptions) []byte {
	return append(appendMembers(dst, typ, o), `,"uri_list":`...)
}

// appendHeadOnly returns a request without a list.
func appendHeadOnly(typ string, o callOptions) []byte {
	return append(appendMembers(nil, typ, o), '}')
}

func appendMembers(dst []byte, typ string, o callOptions) []byte {
	dst = append(dst, `{"filter_typeid":`...)
	dst = appendType(dst, typ)
	if o.expires {
		dst = append(dst, `,"expire":`...)
		dst = append(dst, o.seconds()...)
	}
	if o.skips {
		dst = append(dst, `,"invalid":"skip"`...)
	}
	return o.appendTerms(dst)
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

// special finds the first byte of b that needs an escape, 32 at a time.
func special(b []byte) int {
	i := 0
	for ; i+32 <= len(b); i += 32 {
		p := b[i : i+32]
		w0, w1 := binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[8:])
		w2, w3 := binary.LittleEndian.Uint64(p[16:]), binary.LittleEndian.Uint64(p[24:])
		if (maybe(w0)|maybe(w1)|maybe(w2)|maybe(w3))&highs != 0 && (hits(w0)|hits(w1)|hits(w2)|hits(w3))&highs != 0 {
			break
		}
	}
	for ; i+8 <= len(b); i += 8 {
		if hits(binary.LittleEndian.Uint64(b[i:]))&highs != 0 {
			break
		}
	}
	if i+8 > len(b) && len(b) >= 8 && hits(binary.LittleEndian.Uint64(b[len(b)-8:]))&highs == 0 {
		return len(b) // checked the rest, and some bytes before it a second time
	}
	for ; i < len(b); i++ {
		if c := b[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
	}
	return i
}

const ones, highs = 0x0101010101010101, 0x8080808080808080

// hits sets the high bit of each byte of w that needs an escape: below 0x20, or zero after
// the XOR. Borrows may set more bits, but only above a correct one.
func hits(w uint64) uint64 {
	quote, back := w^(ones*'"'), w^(ones*'\\')
	return (w-ones*0x20)&^w | (quote-ones)&^quote | (back-ones)&^back
}

// maybe is a faster hits that also finds the blank and the exclamation mark.
func maybe(w uint64) uint64 {
	back := w ^ (ones * '\\')
	return (w-ones*('"'+1))&^w | (back-ones)&^back
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
// the texts of r, so one pass over both finds the items that it has. ok is false for an
// answer that is written in any other way; it may still be valid.
func (r *request) parseFresh(answer []byte, items []string) (result FilterResult[string], ok bool) {
	rest, ok := bytes.CutPrefix(answer, []byte(`{"uri_list":[`))
	if !ok {
		return result, false
	}
	// How many there are if they are as long on average as the items of the request.
	like := int64(len(rest)) * int64(len(items)) / int64(len(r.body))
	result.URIList = make([]string, 0, min(int64(len(items)), like+1))
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
	rest = bytes.TrimPrefix(rest, []byte(`,"invalid":0`)) // does not match 10
	ended := string(bytes.TrimSpace(rest)) == "}" || bytes.HasPrefix(rest, []byte(`,"over_capacity":true,"fpr_estimate":`))
	return result, ok && good == [3]bool{true, true, true} && ended
}

func startsWithItem(rest, text []byte) bool {
	return len(rest) > len(text) && (rest[len(text)] == ',' || rest[len(text)] == ']') &&
		bytes.Equal(rest[:len(text)], text)
}

func leadingInt(b []byte) (value int, rest []byte, ok bool) {
	for ok = false; len(b) > 0 && b[0] >= '0' && b[0] <= '9' && value < math.MaxInt32/10; b = b[1:] {
		value, ok = value*10+int(b[0]-'0'), true
	}
	return value, b, ok
}
