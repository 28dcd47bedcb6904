package items

// kind names the type of the value at pos, without consuming it.
func (p *parser) kind() (string, *Error) {
	if p.pos == len(p.body) {
		return "", p.unexpected("a value")
	}
	ahead := *p
	switch c := p.body[p.pos]; {
	case c == '"':
		return "a string", nil
	case c == '-', isDigit(c):
		return "a number", nil
	case c == '[':
		return "an array", nil
	case c == '{':
		return "an object", nil
	case c == 't', c == 'f':
		return "a boolean", ahead.boolean()
	case c == 'n':
		return "null", ahead.word("null")
	}
	return "", p.unexpected("a value")
}

// expect returns an error with a code unless the value at pos is of a kind. An optional one may be null, which it consumes.
func (p *parser) expect(kind string, optional bool, code, field, want string) (null bool, _ *Error) {
	at := p.pos
	found, err := p.kind()
	switch {
	case err != nil || found == kind:
		return false, err
	case optional && found == "null":
		return true, p.word("null")
	}
	return false, p.fault(code, at, "%s: found %s, want %s", field, found, want)
}

func (p *parser) wrongType(field string, offset int, found, want string) *Error {
	return p.fault(WrongType, offset, "%s: found %s, want %s", field, found, want)
}

// short parses a string that is not an item. The result is valid until the arena grows.
func (p *parser) short() ([]byte, *Error) {
	l := p.list
	at := len(l.arena)
	plain, arena, err := p.text(l.arena)
	l.arena = arena[:at]
	if plain == nil {
		plain = arena[at:]
	}
	return plain, err
}

// integerMember parses a number that must be a 64-bit integer.
func (p *parser) integerMember(field, want string) (int64, *Error) {
	at := p.pos
	lit, whole, err := p.number()
	if err != nil {
		return 0, err
	}
	n, ok := integer(lit, whole)
	if !ok {
		return 0, p.wrongType(field, at, "the number "+shown(lit), want)
	}
	return n, nil
}

// same returns b as a string: last itself, if it is equal.
func same(last string, b []byte) string {
	if last == string(b) {
		return last
	}
	return string(b)
}
