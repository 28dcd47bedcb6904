package links

import (
	"strings"
	"unicode/utf8"
)

// spaces is the white space of HTML.
const spaces = " \t\n\r\f"

// text collects text of a bounded length, with one blank for each run of white space.
type text struct {
	b     []byte
	blank bool // a blank is due before the next character
	full  bool
}

func (t *text) add(s []byte, limit int) {
	for len(s) > 0 && !t.full {
		r, size := utf8.DecodeRune(s)
		s = s[size:]
		if r == 0xa0 || r < 0x80 && strings.IndexByte(spaces, byte(r)) >= 0 {
			t.blank = len(t.b) > 0
			continue
		}
		more := size
		if t.blank {
			more++
		}
		if len(t.b)+more > limit { // no character is cut in two
			t.full = true
			return
		}
		if t.blank {
			t.b, t.blank = append(t.b, ' '), false
		}
		t.b = utf8.AppendRune(t.b, r)
	}
}

// drain returns what was collected, and empties it.
func (t *text) drain() string {
	s := string(t.b)
	t.b, t.blank, t.full = t.b[:0], false, false
	return s
}

func clean(s string, limit int) string {
	var t text
	t.add([]byte(s), limit)
	return t.drain()
}

// trim does the first steps of the URL standard: it removes controls and spaces at the ends, and
// tabs and line ends everywhere.
func trim(reference string) string {
	reference = strings.TrimFunc(reference, func(r rune) bool { return r <= ' ' })
	if !strings.ContainsAny(reference, "\t\n\r") {
		return reference
	}
	return strings.Map(func(r rune) rune {
		if r == '\t' || r == '\n' || r == '\r' {
			return -1
		}
		return r
	}, reference)
}

// otherScheme returns the scheme of a reference, in lower case, if that is not http or https.
func otherScheme(reference string) string {
	for i := range len(reference) {
		c := reference[i]
		switch {
		case 'a' <= c|0x20 && c|0x20 <= 'z':
		case i > 0 && ('0' <= c && c <= '9' || c == '+' || c == '-' || c == '.'):
		case i > 0 && c == ':':
			scheme := strings.ToLower(reference[:min(i, 32)])
			if scheme == "http" || scheme == "https" {
				return ""
			}
			return scheme
		default:
			return ""
		}
	}
	return ""
}
