// Package terminal has what commands need to show on a terminal how far they are: whether
// there is one, and when and how its line is written again.
package terminal

import (
	"os"
	"time"

	"golang.org/x/term"
)

const (
	// ProgressAfter is how long something takes before its progress is shown.
	ProgressAfter = 500 * time.Millisecond
	// ProgressEvery is the time between two states of a progress.
	ProgressEvery = 100 * time.Millisecond
	// ClearLine goes to the beginning of the line and wipes it.
	ClearLine = "\r\x1b[K"
	// ClearScreen goes to the upper left corner and wipes what is below.
	ClearScreen = "\x1b[H\x1b[2J"
)

// Is tells whether a stream is a terminal.
func Is(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
