package command

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"runtime"
	"syscall"
)

// exitNoReader is the code that shells report for a process that SIGPIPE (13) ended.
const exitNoReader = 128 + 13

// Windows' own numbers; syscall has invented different ones.
const (
	windowsBrokenPipe = syscall.Errno(109)
	windowsNoData     = syscall.Errno(232)
)

// OutputClosed reports whether the reader of our output has left; err comes from writing to it.
func OutputClosed(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrClosedPipe) ||
		runtime.GOOS == "windows" && (errors.Is(err, windowsBrokenPipe) || errors.Is(err, windowsNoData))
}

// readerLeft reports whether any error is that of our standard output whose reader has left, as
// `head -1` does: no fault to speak of. Connections that break are not meant.
func readerLeft(err error) bool {
	var failed *fs.PathError
	return errors.As(err, &failed) && failed.Path == os.Stdout.Name() && OutputClosed(failed.Err)
}
