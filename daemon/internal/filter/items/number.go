package items

import (
	"math"
	"strconv"
)

// exactDigits is the number of decimal digits up to which a double holds any integer exactly.
const exactDigits = 15

// number parses a number; whole says that it has neither fraction nor exponent.
func (p *parser) number() (lit []byte, whole bool, err *Error) {
	start := p.pos
	if p.body[p.pos] == '-' {
		p.pos++
	}
	if p.pos < len(p.body) && p.body[p.pos] == '0' {
		p.pos++
		if p.pos < len(p.body) && isDigit(p.body[p.pos]) {
			return nil, false, p.fault(MalformedJSON, p.pos, "digit after a leading zero")
		}
	} else if err := p.digits(); err != nil {
		return nil, false, err
	}
	whole = true
	if p.pos < len(p.body) && p.body[p.pos] == '.' {
		whole = false
		p.pos++
		if err := p.digits(); err != nil {
			return nil, false, err
		}
	}
	if p.pos < len(p.body) && p.body[p.pos]|0x20 == 'e' {
		whole = false
		p.pos++
		if p.pos < len(p.body) && (p.body[p.pos] == '+' || p.body[p.pos] == '-') {
			p.pos++
		}
		if err := p.digits(); err != nil {
			return nil, false, err
		}
	}
	return p.body[start:p.pos], whole, nil
}

func (p *parser) digits() *Error {
	from := p.pos
	for p.pos < len(p.body) && isDigit(p.body[p.pos]) {
		p.pos++
	}
	if p.pos == from {
		return p.unexpected("a digit")
	}
	return nil
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isCanonical tells, without a conversion, whether a literal is its own canonical form.
// It may return false for one that is.
func isCanonical(lit []byte, whole bool) bool {
	return whole && len(lit) <= exactDigits && (lit[0] != '-' || lit[1] != '0')
}

// appendNumber appends the RFC 8785 form of the literal before pos.
func (p *parser) appendNumber(dst, lit []byte, whole bool) ([]byte, *Error) {
	if isCanonical(lit, whole) {
		return append(dst, lit...), nil
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	if err != nil { // the grammar was checked: out of range
		return dst, p.fault(InvalidItem, p.pos-len(lit), "number %s is too large for a double; send it as a string", shown(lit))
	}
	if whole && len(lit) > exactDigits {
		// The exact integer value of the double must read as the literal does.
		at := len(dst)
		dst = strconv.AppendFloat(dst, f, 'f', 0, 64)
		exact := string(dst[at:]) == string(lit)
		if dst = dst[:at]; !exact {
			return dst, p.fault(InvalidItem, p.pos-len(lit), "integer %s is not exact as a double; send it as a string", shown(lit))
		}
	}
	return appendES6(dst, f), nil
}

// appendES6 appends a finite number as ECMAScript's Number.prototype.toString writes
// it: the shortest digits that read back as f.
func appendES6(dst []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs == 0 {
		return append(dst, '0')
	}
	if 1e-6 <= abs && abs < 1e21 {
		return strconv.AppendFloat(dst, f, 'f', -1, 64)
	}
	dst = strconv.AppendFloat(dst, f, 'e', -1, 64)
	if n := len(dst); dst[n-4] == 'e' && dst[n-2] == '0' { // e-07 is e-7
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// integer reads a literal as an integer; 1.0 and 1e3 are integers too.
func integer(lit []byte, whole bool) (int64, bool) {
	if whole {
		n, err := strconv.ParseInt(string(lit), 10, 64)
		return n, err == nil
	}
	f, err := strconv.ParseFloat(string(lit), 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// shown returns b, cut to the length that an error message should quote.
func shown(b []byte) string {
	if len(b) > 64 {
		return string(b[:64]) + "..."
	}
	return string(b)
}
