// Package terminal is how our programs write to a terminal: what others have written is shown and never obeyed, and
// lines and screens of our own are redrawn. No other package writes control characters to a terminal.
package terminal

import (
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

const (
	clearLine   = "\r\x1b[K"      // goes to the beginning of the line and erases it
	clearScreen = "\x1b[H\x1b[2J" // goes to the upper left corner and erases everything below
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f := file(stream)
	return f != nil && term.IsTerminal(int(f.Fd()))
}

// Width is how many columns a terminal has; 80 if that is not known.
func Width(stream any) int {
	if f := file(stream); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width >= 20 {
			return width
		}
	}
	return 80
}

// Stream is the stream that Protect was given, for another program that is to write there. It looks into writers
// with a method Unwrap.
func Stream(w io.Writer) io.Writer {
	for {
		around, ok := w.(interface{ Unwrap() io.Writer })
		if !ok {
			return w
		}
		w = around.Unwrap()
	}
}

func file(stream any) *os.File {
	if w, ok := stream.(io.Writer); ok {
		stream = Stream(w)
	}
	f, _ := stream.(*os.File)
	return f
}

// Redraw replaces the line of the cursor; "" erases it.
func Redraw(w io.Writer, line string) error {
	_, err := io.WriteString(Stream(w), clearLine+Text(line))
	return err
}

const (
	progressAfter = 500 * time.Millisecond // a task must run before its progress is shown
	progressEvery = 100 * time.Millisecond // between two updates of the line
)

// Progress is a line on a terminal that shows how far a task is, if that takes some time. A nil one shows nothing.
type Progress struct {
	w            io.Writer
	began, drawn time.Time
}

// NewProgress begins to measure the time; nil unless on, and unless w is a terminal.
func NewProgress(w io.Writer, on bool) *Progress {
	if !on || !Is(w) {
		return nil
	}
	return &Progress{w: w, began: time.Now()}
}

// Show replaces the line, if that is due.
func (p *Progress) Show(format string, args ...any) {
	if p == nil || time.Since(p.began) < progressAfter || time.Since(p.drawn) < progressEvery {
		return
	}
	p.drawn = time.Now()
	_ = Redraw(p.w, fmt.Sprintf(format, args...))
}

// Clear erases the line, so that other output does not mix with it.
func (p *Progress) Clear() {
	if p != nil && !p.drawn.IsZero() {
		_ = Redraw(p.w, "")
		p.drawn = time.Time{}
	}
}

// Clear erases the screen.
func Clear(w io.Writer) error {
	_, err := io.WriteString(Stream(w), clearScreen)
	return err
}
