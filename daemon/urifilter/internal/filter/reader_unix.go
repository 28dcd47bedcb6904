//go:build unix

package filter

import (
	"io"
	"os"

	"golang.org/x/sys/unix"

	"github.com/cr-clawer/urifilter/configs/terminal"
)

// readerLeft reports whether out is a pipe or a terminal that nobody reads any more.
func readerLeft(out io.Writer) bool {
	file, ok := terminal.Stream(out).(*os.File)
	if !ok {
		return false
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return false
	}
	left := false
	err = raw.Control(func(fd uintptr) {
		// Errors and hang-ups are always reported.
		state := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(state, 0)
		left = err == nil && n > 0 && state[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && left
}
