package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// style is how text is laid out and coloured.
type style struct {
	color      bool
	host, step int // widths of the columns
	columns    int // of the terminal; 0: no terminal
}

const (
	widestHost   = 24
	usualStep    = 28
	widestStatus = len("would change")
)

// fit chooses the columns for the hosts' names and a terminal with that many columns; 0:
// there is no terminal, and lines may be of any length.
func (s *style) fit(hosts []string, columns int) {
	s.host, s.step, s.columns = 4, usualStep, columns
	for _, h := range hosts {
		s.host = max(s.host, width(h))
	}
	if columns > 0 {
		s.host = min(s.host, max(6, min(widestHost, columns/4)))
		s.step = min(s.step, max(8, columns-s.host-widestStatus-7))
	}
}

// line returns "host | step | status  rest".
func (s *style) line(host, step string, status Status, rest string) string {
	text := s.prefix(host) + pad(step, s.step) + " | "
	name := string(status)
	if rest == "" {
		return text + s.paint(status, name)
	}
	return text + s.paint(status, name) + strings.Repeat(" ", max(0, len("changed")-len(name))+2) + rest
}

func (s *style) prefix(host string) string { return pad(shorten(host, s.host), s.host) + " | " }

// paint colours text as suits the status.
func (s *style) paint(status Status, text string) string {
	switch status {
	case OK:
		return s.ansi("32", text)
	case Changed, WouldChange, Undone:
		return s.ansi("33", text)
	case Failed, Unreachable, Interrupted:
		return s.ansi("1;31", text)
	case Skipped, NotStarted:
		return s.ansi("2", text)
	}
	return text
}

func (s *style) ansi(code, text string) string {
	if !s.color || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// diff colours and indents a diff.
func (s *style) diff(text string) string {
	var b strings.Builder
	for line := range strings.Lines(clean(text)) {
		line = strings.TrimRight(line, "\n")
		switch {
		case strings.HasPrefix(line, "@@"):
			line = s.ansi("36", line)
		case strings.HasPrefix(line, "+"):
			line = s.ansi("32", line)
		case strings.HasPrefix(line, "-"):
			line = s.ansi("31", line)
		}
		b.WriteString("    " + line + "\n")
	}
	return b.String()
}

// prefixed puts the host before each line.
func (s *style) prefixed(host, text string) string {
	var b strings.Builder
	for line := range strings.Lines(clean(text)) {
		b.WriteString(s.prefix(host) + "  " + strings.TrimRight(line, "\n") + "\n")
	}
	return b.String()
}

// clean makes what a host has written safe, and plain: colours are left out, and of a line that carriage
// returns have overwritten, the last state stays.
func clean(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		body := strings.TrimRight(line, "\r\n")
		b.WriteString(terminal.Text(withoutEscapes(body[strings.LastIndexByte(body, '\r')+1:])))
		if strings.HasSuffix(line, "\n") {
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// withoutEscapes removes ANSI sequences as a whole.
func withoutEscapes(text string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(text, "\x1b")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		text = strings.TrimPrefix(after, "[")
		if text == after { // not a control sequence: two characters
			if text != "" {
				text = text[1:]
			}
			continue
		}
		end := strings.IndexFunc(text, func(r rune) bool { return r >= '@' && r <= '~' })
		text = text[end+1:]
	}
}

// oneLine returns the first line of a text.
func oneLine(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(clean(text)), "\n")
	return strings.TrimSpace(strings.ReplaceAll(text, "\t", " "))
}

func width(text string) int { return len([]rune(text)) }

func pad(text string, to int) string { return text + strings.Repeat(" ", max(0, to-width(text))) }

// shorten cuts text to that many columns.
func shorten(text string, to int) string {
	if runes := []rune(text); len(runes) > to {
		return string(runes[:max(0, to-1)]) + "…"
	}
	return text
}

// took returns a time for people: "0.4 s", "12 s", "3 min 05 s", "1 h 02 min".
func took(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
