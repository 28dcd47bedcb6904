// Package terminal helps commands to show their progress on a terminal: whether there is one,
// and when and how its line is rewritten.
package terminal

import (
	"os"
	"time"

	"golang.org/x/term"
)

const (
	// ProgressAfter is how long a task must run before its progress is shown.
	ProgressAfter = 500 * time.Millisecond
	// ProgressEvery is the time between two updates of a progress line.
	ProgressEvery = 100 * time.Millisecond
	// ClearLine goes to the beginning of the line and erases it.
	ClearLine = "\r\x1b[K"
	// ClearScreen goes to the upper left corner and erases everything below.
	ClearScreen = "\x1b[H\x1b[2J"
)

// Is reports whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
