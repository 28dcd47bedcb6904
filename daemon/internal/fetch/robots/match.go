package robots

import "strings"

const upperHex = "0123456789ABCDEF"

// encode brings a path or a pattern into the form in which they are compared (RFC 9309, 2.2.2 and 2.2.3):
// bytes that are not ASCII are percent-encoded, escapes are in upper case, and those of unreserved characters
// are decoded. A * or $ of a path is percent-encoded, as it is in a pattern that means the character itself; in a
// pattern * stays any text, and $ at its end the end of the path.
func encode(text string, pattern bool) string {
	special := func(i int) bool {
		switch text[i] {
		case '*':
			return !pattern
		case '$':
			return !pattern || i < len(text)-1
		}
		return false
	}
	plain := true
	for i := 0; i < len(text) && plain; i++ {
		plain = text[i] != '%' && text[i] > ' ' && text[i] < 0x7f && !special(i)
	}
	if plain {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '%' && i+2 < len(text) && hex(text[i+1]) >= 0 && hex(text[i+2]) >= 0:
			c = byte(hex(text[i+1])<<4 | hex(text[i+2]))
			if i += 2; unreserved(c) {
				b.WriteByte(c)
				continue
			}
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		case c <= ' ' || c >= 0x7f || c == '%' || special(i): // a % that begins no escape stays as it is
			b.Write([]byte{'%', upperHex[c>>4], upperHex[c&15]})
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func unreserved(c byte) bool {
	return c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}

func hex(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c|0x20 >= 'a' && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}

// matches reports whether a pattern matches the beginning of a path: * is any text, $ at its end
// the end of the path. Each part between stars is matched where it first occurs, so the time is
// bounded by the product of both lengths.
func matches(pattern, path string) bool {
	pattern, whole := strings.CutSuffix(pattern, "$")
	first, rest, stars := strings.Cut(pattern, "*")
	if !strings.HasPrefix(path, first) {
		return false
	}
	path = path[len(first):]
	for stars {
		var part string
		if part, rest, stars = strings.Cut(rest, "*"); !stars && whole {
			return strings.HasSuffix(path, part)
		}
		at := strings.Index(path, part)
		if at < 0 {
			return false
		}
		path = path[at+len(part):]
	}
	return !whole || path == ""
}
