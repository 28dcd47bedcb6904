package canonical

// class is a set of ASCII characters.
type class [256]bool

func letters(more string) *class {
	var c class
	for b := byte('0'); b <= 'z'; b++ {
		c[b] = 'a' <= b|0x20 && b|0x20 <= 'z' || b <= '9'
	}
	for i := range len(more) {
		c[more[i]] = true
	}
	return &c
}

// Characters that stand for themselves, by RFC 3986.
var (
	unreserved = letters("-._~")
	userBytes  = letters("-._~!$&'()*+,;=:")
	hostBytes  = letters("-._~!$&'()*+,;=")
	pathBytes  = letters("-._~!$&'()*+,;=:@/")
	queryBytes = letters("-._~!$&'()*+,;=:@/?")
)

// undoneInPath are the characters whose escapes mean the same in a path. An escaped semicolon is part
// of a name, and one that is not begins a parameter.
var undoneInPath = letters("-._~!$&'()*+,=:@")

// appendEscaped appends s. It undoes the escapes of characters in undo, writes the escapes of
// other characters in upper case, and escapes everything else that is not in plain. A percent
// sign that begins no escape is itself escaped, so that it can never begin one with what follows.
func appendEscaped(dst, s []byte, undo, plain *class) []byte {
	for len(s) > 0 {
		n := 0
		for n < len(s) && plain[s[n]] {
			n++
		}
		dst = append(dst, s[:n]...)
		if s = s[n:]; len(s) == 0 {
			break
		}
		c := s[0]
		if c == '%' && len(s) > 2 && isHex(s[1]) && isHex(s[2]) {
			if c = unhex(s[1])<<4 | unhex(s[2]); undo[c] {
				dst = append(dst, c)
			} else {
				dst = appendEscape(dst, c)
			}
			s = s[3:]
			continue
		}
		dst = appendEscape(dst, c)
		s = s[1:]
	}
	return dst
}

// appendUnescaped appends s with all escapes undone, and with each plus as a space, which it
// means in forms.
func appendUnescaped(dst, s []byte) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '+':
			c = ' '
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			c = unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
		}
		dst = append(dst, c)
	}
	return dst
}

// appendForm appends a name or value as forms send them.
func appendForm(dst, s []byte) []byte {
	for _, c := range s {
		switch {
		case unreserved[c]:
			dst = append(dst, c)
		case c == ' ':
			dst = append(dst, '+')
		default:
			dst = appendEscape(dst, c)
		}
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	const digits = "0123456789ABCDEF"
	return append(dst, '%', digits[c>>4], digits[c&15])
}

func isHex(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

func unhex(c byte) byte {
	if c <= '9' {
		return c - '0'
	}
	return c | 0x20 - 'a' + 10
}
