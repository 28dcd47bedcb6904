package report

import (
	"fmt"
	"strings"
	"testing"
)

// screen is a terminal that understands what Terminal writes, and nothing else.
type screen struct {
	t       *testing.T
	columns int
	lines   []string // all that was ever shown, without trailing blanks
	y       int      // the cursor's line
	row     []rune   // the line under the cursor
}

func newScreen(t *testing.T, columns int) *screen {
	return &screen{t: t, columns: columns, lines: []string{""}}
}

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		switch {
		case text[0] == '\n':
			s.lines[s.y] = string(s.row)
			s.y++
			if s.y == len(s.lines) {
				s.lines = append(s.lines, "")
			}
			s.row = []rune(s.lines[s.y])
			text = text[1:]
		case text[0] == '\r':
			if len(s.row) > 0 {
				s.t.Errorf("a carriage return in the middle of a line: %q", p)
			}
			text = text[1:]
		case strings.HasPrefix(text, "\x1b["):
			text = s.sequence(text[2:])
		default:
			r := []rune(text)[0]
			if r < ' ' {
				s.t.Errorf("control character %q", r)
			}
			if len(s.row) == s.columns { // the terminal continues on the next line
				s.Write([]byte("\n"))
			}
			s.row = append(s.row, r)
			text = text[len(string(r)):]
		}
	}
	return len(p), nil
}

// sequence executes the escape sequence at the front of text and returns the rest.
func (s *screen) sequence(text string) string {
	end := strings.IndexAny(text, "AJm")
	if end < 0 {
		s.t.Fatalf("escape sequence %q", text)
	}
	argument := text[:end]
	switch text[end] {
	case 'A':
		var n int
		if _, err := fmt.Sscan(argument, &n); err != nil || n > s.y {
			s.t.Fatalf("up by %q from line %d", argument, s.y)
		}
		s.y -= n
		s.row = nil
		s.lines[s.y] = ""
	case 'J':
		s.lines = s.lines[:s.y+1]
	}
	return text[end+1:]
}

func (s *screen) String() string {
	s.lines[s.y] = string(s.row)
	var b strings.Builder
	for _, line := range s.lines {
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}
