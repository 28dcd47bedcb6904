//go:build !linux

package jail

import (
	"fmt"
	"runtime"
)

// Enter fails: there is a jail on Linux alone.
func Enter(Limits) error {
	return fmt.Errorf("%w: want Linux, this is %s", ErrUnsupported, runtime.GOOS)
}
