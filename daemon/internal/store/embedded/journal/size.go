package journal

import (
	"errors"
	"os"
	"strings"
)

// Size returns how many bytes the files of the journal in dir take, including the room that is
// made ahead of need. It may be called while the journal is in use.
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
