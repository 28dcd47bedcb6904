//go:build unix

package bitmap

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// becomeOwner switches from root to the owner of dir for the rest of the process: files that
// root creates in a data directory would keep the daemon from starting.
func becomeOwner(dir string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	info, err := os.Stat(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == 0 {
		return nil
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(int(owner.Gid)), syscall.Setuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("become the owner of %s, user %d: %w", dir, owner.Uid, err)
	}
	return nil
}
