//go:build !linux

package jail

import (
	"fmt"
	"runtime"
)

// Available fails: there is a jail on Linux alone.
func Available() error {
	return fmt.Errorf("%w: want Linux, this is %s", ErrUnsupported, runtime.GOOS)
}

// Exec fails: there is a jail on Linux alone.
func Exec(Options, string, []string, []string) error { return Available() }

// Executable tells whether memory can be made executable.
func Executable() bool { return false }
