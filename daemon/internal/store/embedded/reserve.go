package embedded

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// The file reserve in the data directory holds space for the operations that free space: without
// it nothing could be cleared, dropped or put away on a full disk, since these write a small file
// or a name first.
const (
	reserveName  = "reserve"
	reserveBytes = 256 << 10
)

// keepReserve makes the file, if it is missing.
func keepReserve(fs disk.FS, dir string) error {
	path := filepath.Join(dir, reserveName)
	if info, err := os.Stat(path); err == nil && info.Size() == reserveBytes {
		return nil
	}
	f, err := fs.OpenFile("reserve-create", path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return err
	}
	err = f.Zero("reserve-zero", reserveBytes)
	if err == nil {
		err = f.Sync("reserve-sync") // some file systems find out only now that there is no space
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, fs.Remove("reserve-remove", path))
	}
	return err
}

// withReserve lets work, which frees space, use the reserve: if there is no space for it, the
// reserve is given up and work is done once more. An error of work means that nothing has changed.
func (s *Store) withReserve(work func() error) error {
	err := work()
	if !disk.IsNoSpace(err) {
		return err
	}
	if s.opt.FS.Remove("reserve-use", filepath.Join(s.opt.Dir, reserveName)) != nil {
		return err
	}
	err = work()
	if err := keepReserve(s.opt.FS, s.opt.Dir); err != nil {
		s.log.Debug("the reserve is used up; the next start makes it", "err", err)
	}
	return err
}
