package report

import (
	"os"

	"golang.org/x/sys/windows"
)

// ansi makes the console understand ANSI sequences, and says whether it does.
func ansi(f *os.File) bool {
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	return windows.SetConsoleMode(console, mode|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING) == nil
}
