package links

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/htmlindex"
)

// encoder writes the queries of references in the encoding of their page, as the URL standard says
// (percent-encode after encoding). nil means UTF-8, which the parser does itself.
type encoder struct {
	e *encoding.Encoder
}

// queryEncoder returns the encoder for an encoding by its name. Pages in UTF-16 or in an
// unknown encoding send UTF-8.
func queryEncoder(name string) *encoder {
	e, err := htmlindex.Get(name)
	if err != nil || e == encoding.Replacement {
		return nil
	}
	if name, err = htmlindex.Name(e); err != nil || name == "utf-8" || strings.HasPrefix(name, "utf-16") {
		return nil
	}
	return &encoder{e.NewEncoder()}
}

// reference encodes the query of a reference, if it has characters outside ASCII.
func (q *encoder) reference(s string) string {
	if q == nil {
		return s
	}
	before, _, _ := strings.Cut(s, "#")
	i := strings.IndexByte(before, '?')
	if i < 0 || isASCII(before[i:]) {
		return s
	}
	return before[:i+1] + q.query(before[i+1:])
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}

// query encodes a query. ASCII is left to the parser; runs of other characters are encoded
// together, because an encoding may be stateful.
func (q *encoder) query(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		n := 0
		for n < len(s) && s[n] < 0x80 {
			n++
		}
		b.WriteString(s[:n])
		s = s[n:]
		n = 0
		for n < len(s) && s[n] >= 0x80 {
			n++
		}
		q.run(&b, s[:n])
		s = s[n:]
	}
	return b.String()
}

func (q *encoder) run(b *strings.Builder, s string) {
	if whole, err := q.e.String(s); err == nil {
		escape(b, whole)
		return
	}
	for _, r := range s {
		if coded, err := q.e.String(string(r)); err == nil && r != utf8.RuneError {
			escape(b, coded)
		} else {
			b.WriteString("%26%23" + strconv.Itoa(int(r)) + "%3B")
		}
	}
}

// escape writes bytes of the query of an http URI: its percent-encode set is controls, space,
// " # < > ' and everything outside ASCII.
func escape(b *strings.Builder, s string) {
	const digits = "0123456789ABCDEF"
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c >= 0x7f, c == '"', c == '#', c == '<', c == '>', c == '\'':
			b.WriteByte('%')
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		default:
			b.WriteByte(c)
		}
	}
}
