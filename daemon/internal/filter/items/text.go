package items

import (
	"unicode/utf16"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/filter/items/scan"
)

// text parses a string. If it has no escapes, plain is its text, a slice of the body;
// otherwise plain is nil and the text is appended to dst.
func (p *parser) text(dst []byte) (plain, out []byte, err *Error) {
	i := p.pos + 1
	for {
		from := i
		i = scan.PlainEnd(p.body, i)
		if i < len(p.body) && p.body[i] >= utf8.RuneSelf {
			high := i
			i = scan.TextEnd(p.body, i)
			if !utf8.Valid(p.body[high:i]) {
				return nil, dst, p.badUTF8(high, p.body[high:i])
			}
		}
		chunk := p.body[from:i]
		if i == len(p.body) {
			p.pos = i
			return nil, dst, p.unexpected("the end of a string")
		}
		switch p.body[i] {
		case '"':
			if from == p.pos+1 {
				p.pos = i + 1
				return chunk, dst, nil
			}
			p.pos = i + 1
			return nil, append(dst, chunk...), nil
		case '\\':
			dst = append(dst, chunk...)
			for i < len(p.body) && p.body[i] == '\\' {
				if dst, i, err = p.escape(dst, i); err != nil {
					return nil, dst, err
				}
			}
		default:
			return nil, dst, p.fault(MalformedJSON, i, "control character 0x%02x in a string, want it escaped", p.body[i])
		}
	}
}

func (p *parser) badUTF8(from int, chunk []byte) *Error {
	for {
		r, n := utf8.DecodeRune(chunk)
		if r == utf8.RuneError && n == 1 {
			return p.fault(InvalidUTF8, from, "byte 0x%02x is not UTF-8", chunk[0])
		}
		chunk, from = chunk[n:], from+n
	}
}

// escape appends the character of the escape at body[i] and returns the place after it.
func (p *parser) escape(dst []byte, i int) ([]byte, int, *Error) {
	if i+1 == len(p.body) {
		p.pos = i + 1
		return dst, 0, p.unexpected("an escape")
	}
	switch c := p.body[i+1]; c {
	case '"', '\\', '/':
		return append(dst, c), i + 2, nil
	case 'b':
		return append(dst, '\b'), i + 2, nil
	case 'f':
		return append(dst, '\f'), i + 2, nil
	case 'n':
		return append(dst, '\n'), i + 2, nil
	case 'r':
		return append(dst, '\r'), i + 2, nil
	case 't':
		return append(dst, '\t'), i + 2, nil
	case 'u':
	default:
		p.pos = i + 1
		return dst, 0, p.unexpected(`one of "\/bfnrtu after a backslash`)
	}
	r, err := p.hex4(i + 2)
	if err != nil {
		return dst, 0, err
	}
	next := i + 6
	if utf16.IsSurrogate(r) {
		low := rune(-1)
		if next+1 < len(p.body) && p.body[next] == '\\' && p.body[next+1] == 'u' {
			if low, err = p.hex4(next + 2); err != nil {
				return dst, 0, err
			}
		}
		if r = utf16.DecodeRune(r, low); r == utf8.RuneError {
			return dst, 0, p.fault(InvalidUTF8, i, "%s is half a surrogate pair", p.body[i:next])
		}
		next += 6
	}
	return utf8.AppendRune(dst, r), next, nil
}

func (p *parser) hex4(i int) (rune, *Error) {
	var r rune
	for j := i; j < i+4; j++ {
		var c byte
		if j < len(p.body) {
			c = p.body[j]
		}
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			p.pos = j
			return 0, p.unexpected("four hexadecimal digits")
		}
		r = r<<4 | rune(c)
	}
	return r, nil
}

// AppendString appends s, which is UTF-8, as a JSON string.
func AppendString(dst []byte, s string) []byte { return appendQuoted(dst, []byte(s)) }

// appendQuoted appends s as RFC 8785 writes a string: only what must be is escaped.
func appendQuoted(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for {
		i := scan.TextEnd(s, 0)
		dst = append(dst, s[:i]...)
		if i == len(s) {
			return append(dst, '"')
		}
		switch c := s[i]; c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\t':
			dst = append(dst, `\t`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\r':
			dst = append(dst, `\r`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		s = s[i+1:]
	}
}
