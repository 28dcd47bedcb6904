package redis

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// line is a directive of a redis.conf.
type line struct {
	number int // from 1
	key    string
	args   []string
}

func (l line) value() string { return strings.Join(l.args, " ") }

// parseConf reads the directives of a redis.conf.
func parseConf(name, text string) ([]line, error) {
	var all []line
	number := 0
	for raw := range strings.Lines(text) {
		number++
		raw = strings.TrimSpace(raw)
		if raw == "" || raw[0] == '#' {
			continue
		}
		words, err := splitArgs(raw)
		if err != nil || len(words) == 0 {
			return nil, fmt.Errorf("%s:%d: unbalanced quotes", name, number)
		}
		all = append(all, line{number, strings.ToLower(words[0]), words[1:]})
	}
	return all, nil
}

// last returns the value of key that is in effect, which is the last one; "" for none.
func last(lines []line, key string) string {
	for _, l := range slices.Backward(lines) {
		if l.key == key {
			return l.value()
		}
	}
	return ""
}

// included returns the index of the line that includes a file, -1 for none.
func included(lines []line, file string) int {
	for i, l := range slices.Backward(lines) {
		if l.key == "include" && l.value() == file {
			return i
		}
	}
	return -1
}

var errQuotes = errors.New("unbalanced quotes")

// splitArgs splits a line as Redis does (sdssplitargs): words, "..." with escapes such as
// \n and \x41, and '...' with \' alone.
func splitArgs(text string) ([]string, error) {
	var words []string
	for {
		text = strings.TrimLeft(text, " \t\r\n")
		if text == "" {
			return words, nil
		}
		word, rest, err := firstArg(text)
		if err != nil {
			return nil, err
		}
		words, text = append(words, word), rest
	}
}

func firstArg(text string) (word, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case ' ', '\t', '\r', '\n':
			return b.String(), text[i:], nil
		case '"', '\'':
			n, err := quoted(&b, text[i+1:], c)
			if err != nil {
				return "", "", err
			}
			i += 1 + n
			if i+1 < len(text) && !strings.ContainsRune(" \t\r\n", rune(text[i+1])) {
				return "", "", errQuotes
			}
			return b.String(), text[i+1:], nil
		default:
			b.WriteByte(c)
		}
	}
	return b.String(), "", nil
}

// quoted adds the text up to the closing quote to b, and returns the index of that quote.
func quoted(b *strings.Builder, text string, quote byte) (int, error) {
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == quote:
			return i, nil
		case c == '\\' && quote == '"' && i+3 < len(text) && text[i+1] == 'x' && isHex(text[i+2:i+4]):
			n, _ := strconv.ParseUint(text[i+2:i+4], 16, 8)
			b.WriteByte(byte(n))
			i += 3
		case c == '\\' && quote == '"' && i+1 < len(text):
			i++
			b.WriteByte(unescape(text[i]))
		case c == '\\' && quote == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			b.WriteByte('\'')
		default:
			b.WriteByte(c)
		}
	}
	return 0, errQuotes
}

func isHex(text string) bool {
	return strings.Trim(text, "0123456789abcdefABCDEF") == ""
}

func unescape(c byte) byte {
	switch c {
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	case 'b':
		return '\b'
	case 'a':
		return '\a'
	}
	return c
}

// quoteArg turns any text into one word, for splitArgs and for Redis.
func quoteArg(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' || c == '.' || c == ':' || c == ' ' {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, `\x%02x`, c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

const includeComment = "# The urifilter toolkit's settings. They stand at the end so that they go before what is above.\n"

// withInclude returns the distribution's file with the line that includes ours.
func withInclude(text, file string) string {
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	return text + "\n" + includeComment + "include " + file + "\n"
}

// overridden returns an error if a line after the one that includes our file undoes a setting of ours.
func (s *Server) overridden(st state) error {
	lines, at := st.lines, st.include
	if at < 0 {
		return nil
	}
	for _, l := range lines[at+1:] {
		for _, d := range append(s.directives(st), directive{"requirepass", ""}) {
			if l.key == d.key && !strings.EqualFold(l.value(), d.value) {
				return fmt.Errorf("%s:%d: %s is set again after the line that includes %s, and overrides it\nhint: remove the line, or move it above the include; `CONFIG REWRITE` adds such lines",
					s.product.main, l.number, l.key, s.product.settings())
			}
		}
	}
	return nil
}
