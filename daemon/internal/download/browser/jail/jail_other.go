//go:build !linux

package jail

import (
	"fmt"
	"runtime"
)

// Available fails: only Linux has a jail.
func Available() error {
	return fmt.Errorf("%w: want Linux, this is %s", ErrUnsupported, runtime.GOOS)
}

// Exec fails: only Linux has a jail.
func Exec(Options, string, []string, []string) error { return Available() }

// Executable reports whether memory can be made executable.
func Executable() bool { return false }
