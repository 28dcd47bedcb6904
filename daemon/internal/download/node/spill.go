package node

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
)

// spill is the folder for temporary bodies of a process: DIR/0, DIR/1, ... with a lock file beside
// each, so that several workers of one machine do not touch each other's.
type spill struct {
	dir  string
	lock *disk.Lock
}

// openSpill takes the first free folder, and removes what dead processes left in the others.
func openSpill(dir string) (_ *spill, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	var s *spill
	for i := 0; ; i++ {
		own := filepath.Join(dir, strconv.Itoa(i))
		if _, err := os.Lstat(own + ".lock"); s != nil && errors.Is(err, os.ErrNotExist) {
			return s, nil
		}
		lock, err := disk.AcquireLock(own + ".lock")
		if errors.As(err, new(*disk.InUseError)) {
			continue
		}
		if err == nil {
			err = os.RemoveAll(own)
		}
		switch {
		case err != nil:
		case s != nil:
			err = lock.Release()
		default:
			s = &spill{own, lock}
			err = os.Mkdir(own, 0o700)
		}
		if err != nil {
			if s != nil {
				err = errors.Join(err, s.close())
			}
			return nil, err
		}
	}
}

// close frees the folder. It is empty, since all fetches have ended.
func (s *spill) close() error { return s.lock.Release() }
