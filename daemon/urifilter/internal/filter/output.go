package filter

import (
	"errors"
	"io"
	"runtime"
	"syscall"
)

// Windows' own numbers; syscall has invented different ones.
const (
	windowsBrokenPipe = syscall.Errno(109)
	windowsNoData     = syscall.Errno(232)
)

// outputClosed reports whether the reader of our output has left.
func outputClosed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) ||
		runtime.GOOS == "windows" && (errors.Is(err, windowsBrokenPipe) || errors.Is(err, windowsNoData))
}
