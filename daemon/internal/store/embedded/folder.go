package embedded

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/cr-clawer/urifilter/configs"
	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/kind"
)

// A data directory holds
//
//	lock                     held by the process that owns it, a daemon or a command
//	daemon.lock              held by the daemon that owns it, or waits until a command gives it back
//	ids.json                 the highest id that a filter ever had
//	reserve                  space for what frees space: see reserve.go
//	quarantine/              folders of dropped filters that were damaged
//	filters/<id>-<name>/     one folder a filter, or a link to one: see link.go
//	    filter.json          what it is: package configs
//	    state                what belongs together in the folder: see state.go
//	    bitmap, entries, ... what its kind has, see package kinds
//	    journal-<sequence>   see package journal
//	    spare-<number>       files for coming segments; *.tmp: being written
//	spool/                   answers that wait for their clients, see package front/http
//	filters/new-…            being made: removed at the next start
//	filters/dropped-…        being removed: likewise
const (
	lockName       = "lock"
	daemonLockName = "daemon.lock"
	filtersDir     = "filters"
	specName       = "filter.json"
	newPrefix      = "new-"
	droppedPrefix  = "dropped-"
)

func readSpec(dir string) (engine.Spec, error) {
	path := filepath.Join(dir, specName)
	data, err := os.ReadFile(path)
	if err != nil {
		return engine.Spec{}, err
	}
	spec, err := configs.ParseJSON(data, true)
	if err != nil {
		return engine.Spec{}, fmt.Errorf("%s: %w", path, err)
	}
	if want := folderName(spec); want != filepath.Base(dir) {
		return engine.Spec{}, fmt.Errorf("%s: describes %s, another folder's filter", path, want)
	}
	return spec, nil
}

// folderName is the id and the name; a colon, which some systems do not allow, is written as in URLs.
func folderName(spec engine.Spec) string {
	return fmt.Sprintf("%d-%s", spec.ID, strings.ReplaceAll(spec.Name, ":", "%3A"))
}

// damaged adds a hint on what to do to an error about a filter's files.
func damaged(err error, dir string) error {
	return fmt.Errorf("%w\nhint: with the daemon stopped `urifilter verify` lists all damage, `urifilter verify --repair` keeps what is whole of a journal, "+
		"and %s can be put back from a copy; or drop the filter: its folder is moved away, and it can be made again or restored from the archive", err, dir)
}

// makeDir makes the folder of a new filter, whole or not at all.
func (s *Store) makeDir(spec engine.Spec, file string, m kind.Memory) (dir string, err error) {
	fs, parent := s.opt.FS, filepath.Join(s.opt.Dir, filtersDir)
	dir = filepath.Join(parent, folderName(spec))
	if _, err := os.Lstat(dir); !errors.Is(err, os.ErrNotExist) {
		return "", errors.Join(fmt.Errorf("%s: already exists, and is not served", dir), err)
	}
	tmp := filepath.Join(parent, newPrefix+folderName(spec))
	if err := fs.RemoveAll("filter-remove", tmp); err != nil {
		return "", err
	}
	if err := fs.Mkdir("filter-mkdir", tmp); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = fs.RemoveAll("filter-remove", tmp)
		}
	}()
	text, err := spec.AppendJSON(nil)
	if err != nil {
		return "", err
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, text, "", "  "); err != nil {
		return "", err
	}
	indented.WriteByte('\n')
	err = fs.WriteFile("spec", filepath.Join(tmp, specName), func(f *disk.File) error {
		return f.WriteAt("spec-write", indented.Bytes(), 0)
	})
	if err != nil {
		return "", err
	}
	if err := stateOf(indented.Bytes(), m, 1).write(fs, tmp); err != nil {
		return "", err
	}
	if err := m.Write(fs, filepath.Join(tmp, file), 1); err != nil {
		return "", err
	}
	err = fs.Rename("filter-rename", tmp, dir)
	if err == nil {
		err = fs.SyncDir("filter-syncdir", parent)
	}
	if err != nil {
		// Nobody learns that the filter exists, so its name must become free.
		if _, found := os.Lstat(dir); found == nil {
			if undo := fs.Rename("filter-undo", dir, tmp); undo != nil {
				s.fail(errors.Join(err, undo))
			}
		}
		return "", err
	}
	return dir, nil
}

// takeAway moves a folder to another name, durably on return. On an error the folder is
// unchanged.
func (s *Store) takeAway(dir string) (away string, err error) {
	fs, parent := s.opt.FS, filepath.Dir(dir)
	away = filepath.Join(parent, fmt.Sprintf("%s%s-%d", droppedPrefix, filepath.Base(dir), s.drops.Add(1)))
	err = fs.Rename("filter-drop", dir, away)
	if err == nil {
		err = fs.SyncDir("filter-drop-syncdir", parent)
	}
	if err == nil {
		return away, nil
	}
	if _, found := os.Lstat(away); found == nil {
		undo := fs.Rename("filter-drop-undo", away, dir)
		if undo == nil {
			// Under the other name the next start would remove it.
			undo = fs.SyncDir("filter-drop-undo-syncdir", parent)
		}
		if undo != nil {
			s.fail(errors.Join(err, undo))
		}
	}
	return "", err
}

// tidy removes what a crash left half made or half removed, makes the names of the filters'
// folders durable, and returns them: a process that was killed may have made a folder
// without syncing its name.
func (s *Store) tidy() ([]string, error) {
	found, err := list(s.opt.Dir)
	if err != nil {
		return nil, err
	}
	for _, path := range found.leftovers {
		if err := removeFolder(s.opt.FS, "leftover-remove", path); err != nil {
			return nil, err
		}
	}
	for _, path := range found.strange {
		s.log.Warn("not a filter's folder; it is left alone", "path", path)
	}
	return found.dirs, s.opt.FS.SyncDir("filters-syncdir", filepath.Join(s.opt.Dir, filtersDir))
}

// listing is what is in the folder of filters.
type listing struct {
	dirs      []string // of filters, also what only has such a name
	leftovers []string // may be removed
	strange   []string // everything else
}

// list finds the filters' folders in a data directory, and what else is there.
func list(dataDir string) (found listing, err error) {
	parent := filepath.Join(dataDir, filtersDir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return found, err
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		linked := entry.Type()&os.ModeSymlink != 0
		info, err := os.Stat(path)
		isDir := err == nil && info.IsDir()
		id, _ := splitName(path)
		switch {
		case entry.IsDir() && strings.HasPrefix(entry.Name(), newPrefix), (entry.IsDir() || linked) && strings.HasPrefix(entry.Name(), droppedPrefix):
			found.leftovers = append(found.leftovers, path)
		case isDir:
			found.dirs = append(found.dirs, path)
			tmps, err := filepath.Glob(filepath.Join(path, "*.tmp"))
			if err != nil {
				return found, err
			}
			found.leftovers = append(found.leftovers, tmps...)
		case id != 0:
			found.dirs = append(found.dirs, path) // reading it says what is wrong
		default:
			found.strange = append(found.strange, path)
		}
	}
	return found, nil
}
