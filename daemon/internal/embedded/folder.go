package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/durable"
	"github.com/cr-clawer/urifilter/daemon/internal/engine"
)

// A data directory holds
//
//	lock                     held by the process that owns it
//	filters/<id>-<name>/     one folder a filter:
//	    filter.json          what it is
//	    bitmap               of the kind bloom, see bitmapfile.go
//	    entries              of the kind timing, see entriesfile.go
//	    journal-<sequence>   see package journal
//	    spare-<number>       files for coming segments; *.tmp: being written
//	filters/new-…            being made: removed at the next start
//	filters/dropped-…        being removed: likewise
const (
	filtersDir    = "filters"
	specName      = "filter.json"
	newPrefix     = "new-"
	droppedPrefix = "dropped-"
)

// description is filter.json.
type description struct {
	ID        int     `json:"id"`
	Name      string  `json:"name"`
	Kind      string  `json:"kind"`
	Capacity  uint64  `json:"capacity,omitempty"`
	ErrorRate float64 `json:"error_rate,omitempty"`
	OnFull    string  `json:"on_full,omitempty"`
	ExpireMS  int64   `json:"expire_ms,omitempty"`
}

func describe(s engine.Spec) description {
	return description{s.ID, s.Name, s.Kind, s.Capacity, s.ErrorRate, s.OnFull, s.Expire.Milliseconds()}
}

func (d description) spec() engine.Spec {
	return engine.Spec{
		ID: d.ID, Name: d.Name, Kind: d.Kind, Capacity: d.Capacity, ErrorRate: d.ErrorRate, OnFull: d.OnFull,
		Expire: time.Duration(d.ExpireMS) * time.Millisecond,
	}
}

func readSpec(dir string) (engine.Spec, error) {
	path := filepath.Join(dir, specName)
	data, err := os.ReadFile(path)
	if err != nil {
		return engine.Spec{}, err
	}
	var d description
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return engine.Spec{}, fmt.Errorf("%s: %w", path, err)
	}
	spec := d.spec()
	if want := folderName(spec); want != filepath.Base(dir) {
		return engine.Spec{}, fmt.Errorf("%s: describes %s, another folder's filter", path, want)
	}
	return spec, nil
}

func folderName(spec engine.Spec) string { return fmt.Sprintf("%d-%s", spec.ID, spec.Name) }

// damaged adds the way out to an error about a filter's files.
func damaged(err error, dir string) error {
	return fmt.Errorf("%w\nhint: `urifilter verify` lists all damage, `urifilter verify --repair` keeps what is whole of a journal; "+
		"or put back the folder from a copy, or move %s away to start this filter empty", err, dir)
}

// makeDir makes the folder of a new filter, whole or not at all.
func (s *Store) makeDir(spec engine.Spec, kind kind, m memory) (dir string, err error) {
	parent := filepath.Join(s.opt.Dir, filtersDir)
	tmp := filepath.Join(parent, newPrefix+folderName(spec))
	if err := os.RemoveAll(tmp); err != nil {
		return "", err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return "", err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(tmp)
		}
	}()
	text, err := json.MarshalIndent(describe(spec), "", "  ")
	if err != nil {
		return "", err
	}
	fs := s.opt.FS
	err = fs.WriteFile("spec", filepath.Join(tmp, specName), func(f *durable.File) error {
		return f.WriteAt("spec-write", append(text, '\n'), 0)
	})
	if err != nil {
		return "", err
	}
	if err := m.write(fs, filepath.Join(tmp, kind.file), 1); err != nil {
		return "", err
	}
	dir = filepath.Join(parent, folderName(spec))
	if err := fs.Rename("filter-rename", tmp, dir); err != nil {
		return "", err
	}
	return dir, fs.SyncDir("filter-syncdir", parent)
}

// removeDir takes the folder's name away, ends the set by end, and removes the files.
func (s *Store) removeDir(dir string, end func() error) error {
	parent := filepath.Dir(dir)
	away := filepath.Join(parent, droppedPrefix+filepath.Base(dir))
	if err := end(); err != nil {
		return err
	}
	if err := s.opt.FS.Rename("filter-drop", dir, away); err != nil {
		return err
	}
	if err := s.opt.FS.SyncDir("filter-drop-syncdir", parent); err != nil {
		return err
	}
	return os.RemoveAll(away)
}

// tidy removes what a crash left half made or half removed and returns the folders of
// the filters.
func (s *Store) tidy() ([]string, error) {
	dirs, leftovers, err := list(s.opt.Dir)
	if err != nil {
		return nil, err
	}
	for _, path := range leftovers {
		if err := os.RemoveAll(path); err != nil {
			return nil, err
		}
	}
	return dirs, nil
}

// list finds the filters' folders in a data directory, and what may be removed.
func list(dataDir string) (dirs, leftovers []string, err error) {
	parent := filepath.Join(dataDir, filtersDir)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, nil, err
	}
	for _, entry := range entries {
		path := filepath.Join(parent, entry.Name())
		switch {
		case !entry.IsDir():
		case strings.HasPrefix(entry.Name(), newPrefix), strings.HasPrefix(entry.Name(), droppedPrefix):
			leftovers = append(leftovers, path)
		default:
			dirs = append(dirs, path)
			tmps, err := filepath.Glob(filepath.Join(path, "*.tmp"))
			if err != nil {
				return nil, nil, err
			}
			leftovers = append(leftovers, tmps...)
		}
	}
	return dirs, leftovers, nil
}
