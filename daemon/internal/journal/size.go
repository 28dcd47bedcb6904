package journal

import (
	"errors"
	"os"
	"strings"
)

// Size is how many bytes the files of the journal in dir take, the room that is made ahead of
// need included. It may be asked while the journal is at work.
func Size(dir string) (bytes int64, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, err
	}
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), segmentPrefix) && !strings.HasPrefix(entry.Name(), sparePrefix) {
			continue
		}
		info, err := entry.Info()
		switch {
		case err == nil:
			bytes += info.Size()
		case !errors.Is(err, os.ErrNotExist): // else it was removed at this moment
			return 0, err
		}
	}
	return bytes, nil
}
