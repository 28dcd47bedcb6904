//go:build !linux

package jail

import (
	"fmt"
	"runtime"
)

// Enter fails: only Linux has a jail.
func Enter(Limits) error {
	return fmt.Errorf("%w: want Linux, this is %s", ErrUnsupported, runtime.GOOS)
}
