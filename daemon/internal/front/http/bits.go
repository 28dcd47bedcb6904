package http

import (
	"strconv"
	"strings"

	"github.com/cr-clawer/urifilter/client"
)

// Callers have the list that they send, so an answer need not have the items: a bit for each, in
// order, says which are new. Bit i is bit i%8 of byte i/8, the bits after the last item are 0, and so
// is that of a skipped item. What is said beside the list is in the headers, as that of a stream.

// wantsBits reports whether the values of Accept name that form, and no other of JSON with more weight.
// What only matches it by an asterisk has not asked for it.
func wantsBits(accept []string) bool {
	switch {
	case len(accept) == 0:
		return false
	case len(accept) == 1 && accept[0] == client.MediaBits:
		return true
	}
	bits, exactly, kind, all := 0, -1, -1, -1
	for _, line := range accept {
		for part := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(part, ";")
			q, ok := quality(params)
			if !ok {
				continue
			}
			switch strings.ToLower(strings.TrimSpace(name)) {
			case client.MediaBits:
				bits = q
			case "application/json":
				exactly = q
			case "application/*":
				kind = q
			case "*/*":
				all = q
			}
		}
	}
	json := exactly
	for _, wider := range []int{kind, all} { // the most specific one counts
		if json < 0 {
			json = wider
		}
	}
	return bits > 0 && bits >= json
}

// sendBits answers a list.
func (c *call) sendBits() error {
	h := c.w.Header()
	h.Set(headerTotal, strconv.Itoa(len(c.work.IsNew)+c.req.List.Skipped()))
	h.Set(headerDuplicates, strconv.Itoa(len(c.work.IsNew)-c.work.New))
	if c.req.Skip {
		var skipped skippedLines
		skipped.add(&c.req.List)
		skipped.tell(h)
	}
	c.out = appendBits(c.out[:0], c.work.IsNew, c.req.List.Holes())
	return c.sendOut(c.s.header.bits)
}

// appendBits appends a bit for each item of a list, of which holes were skipped, see items.List.Holes.
func appendBits(dst []byte, isNew []bool, holes []uint32) []byte {
	from := len(dst)
	dst = append(dst, make([]byte, (len(isNew)+len(holes)+7)/8)...)
	bits, at := dst[from:], 0
	for i, is := range isNew {
		for ; len(holes) > 0 && int(holes[0]) == i; holes = holes[1:] {
			at++
		}
		bit := byte(0)
		if is { // which needs no branch
			bit = 1
		}
		bits[at>>3] |= bit << (at & 7)
		at++
	}
	return dst
}
