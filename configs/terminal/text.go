package terminal

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"
)

// Text is a text that a terminal shows as it is: characters that it would obey, or that change what others look like
// (controls but tab and line feed, those that turn the direction of writing, bytes that are no UTF-8), are
// written as in a string of Go, such as \x1b.
func Text(s string) string {
	if !strings.ContainsFunc(s, obeyed) && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for at := 0; at < len(s); {
		r, n := utf8.DecodeRuneInString(s[at:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[at])
		case !obeyed(r):
			b.WriteString(s[at : at+n])
		case r == '\r':
			b.WriteString(`\r`)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		at += n
	}
	return b.String()
}

// obeyed reports whether a terminal does something else with a character than to show it.
func obeyed(r rune) bool {
	switch {
	case r == '\n' || r == '\t':
		return false
	case r == '\u2028' || r == '\u2029': // ends of lines, to some
		return true
	}
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r >= 0xe0000 && r <= 0xe007f // tags, which nobody sees
}

// Protect returns a writer that writes Text to a terminal. Any other stream is returned as it is: files and pipes get
// the bytes that were meant.
func Protect(w io.Writer) io.Writer {
	if !Is(w) {
		return w
	}
	if _, is := w.(*screen); is {
		return w
	}
	return &screen{to: w}
}

// screen is a terminal that gets texts of others.
type screen struct {
	mu   sync.Mutex // outputs of several hosts may come at once
	to   io.Writer
	half []byte // of a character whose other bytes come with the next write
}

// Unwrap is for Stream.
func (s *screen) Unwrap() io.Writer { return s.to }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.half, p...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ { // whether the last character goes on
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	_, err := io.WriteString(s.to, Text(string(text[:whole])))
	s.half = append([]byte(nil), text[whole:]...)
	if err != nil {
		return 0, err
	}
	return len(p), nil
}
