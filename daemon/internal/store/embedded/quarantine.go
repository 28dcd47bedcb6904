package embedded

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

var _ engine.Quarantiner = (*Store)(nil)

// quarantineDir is the folder, in the data directory, for the folders of filters that were
// dropped from quarantine.
const quarantineDir = "quarantine"

// ofAll tells whether an error of one filter's files says nothing about that filter: the
// machine has no descriptors, memory or space at present. Every other error does: files
// that are damaged, missing, of a newer version, of another owner, on bad sectors.
func ofAll(err error) bool {
	return disk.IsShortage(err) || disk.IsNoSpace(err) || errors.Is(err, engine.ErrNoSpace)
}

// clashing finds folders with the same id or name. Nobody can say which of them is right,
// so none is served.
func clashing(dirs []string) map[string]error {
	bad := map[string]error{}
	for i, a := range dirs {
		for _, b := range dirs[i+1:] {
			idA, nameA := splitName(a)
			idB, nameB := splitName(b)
			if nameA == nameB || idA != 0 && idA == idB {
				err := fmt.Errorf("folders %s and %s have the same id or name\nhint: move the wrong one out of %s and start the daemon again",
					filepath.Base(a), filepath.Base(b), filepath.Dir(a))
				bad[a], bad[b] = err, err
			}
		}
	}
	return bad
}

// splitName splits a folder's name; the id is 0 if it has none.
func splitName(dir string) (id int, name string) {
	base := filepath.Base(dir)
	if digits, rest, ok := strings.Cut(base, "-"); ok {
		if id, err := strconv.Atoi(digits); err == nil && id > 0 {
			return id, rest
		}
	}
	return 0, base
}

func (s *Store) quarantine(dir string, cause error) {
	id, name := splitName(dir)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bad = append(s.bad, engine.Quarantined{ID: id, Name: name, Where: dir, Cause: cause})
}

// Quarantined implements engine.Quarantiner.
func (s *Store) Quarantined() []engine.Quarantined {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bad
}

// PutAway implements engine.Quarantiner: it moves the folder out of the filters' directory.
func (s *Store) PutAway(_ context.Context, q engine.Quarantined) (to string, err error) {
	err = s.withReserve(func() error { to, err = s.putAway(q); return err })
	return to, nameSpace(err)
}

func (s *Store) putAway(q engine.Quarantined) (to string, err error) {
	fs, parent := s.opt.FS, filepath.Join(s.opt.Dir, quarantineDir)
	if err := fs.MkdirAll("quarantine-dir", parent); err != nil {
		return "", err
	}
	to = filepath.Join(parent, filepath.Base(q.Where)+time.Now().UTC().Format("-20060102T150405.000000000Z"))
	if _, err := os.Lstat(to); err == nil {
		return "", fmt.Errorf("%s: already exists", to)
	}
	if err := fs.Rename("quarantine-rename", q.Where, to); err != nil {
		return "", err
	}
	// The new name first: a power cut between the two leaves the folder under both or one.
	err = errors.Join(fs.SyncDir("quarantine-syncdir", parent), fs.SyncDir("quarantine-syncdir", filepath.Dir(q.Where)))
	if err != nil {
		return "", errors.Join(err, fs.Rename("quarantine-undo", to, q.Where))
	}
	return to, nil
}
