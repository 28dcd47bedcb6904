package embedded

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cr-clawer/urifilter/daemon/internal/disk"
	"github.com/cr-clawer/urifilter/daemon/internal/filter/engine"
)

// numbersName is the file in the data directory that has the highest id given to a filter
// made at run time: {"highest_id": 1010}. Without the file, none was given.
const numbersName = "ids.json"

type numbers struct {
	HighestID int `json:"highest_id"`
}

var _ engine.Numbers = (*Store)(nil)

// TakeID implements engine.Numbers.
func (s *Store) TakeID(_ context.Context, _ string, least int) (int, error) {
	s.numbering.Lock()
	defer s.numbering.Unlock()
	highest, err := s.highestID()
	if err != nil {
		return 0, err
	}
	id := max(least, highest+1)
	return id, s.keepID(id)
}

// NoteID implements engine.Numbers.
func (s *Store) NoteID(_ context.Context, id int) error {
	s.numbering.Lock()
	defer s.numbering.Unlock()
	if highest, err := s.highestID(); err != nil || highest >= id {
		return err
	}
	return s.keepID(id)
}

// highestID reads the file. The caller holds numbering.
func (s *Store) highestID() (int, error) {
	path := filepath.Join(s.opt.Dir, numbersName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	var n numbers
	if err := json.Unmarshal(text, &n); err != nil || n.HighestID < 0 {
		return 0, fmt.Errorf("%s: want {\"highest_id\": N}\nhint: write there the highest id that a filter ever had", path)
	}
	return n.HighestID, nil
}

func (s *Store) keepID(id int) error {
	text, err := json.Marshal(numbers{id})
	if err != nil {
		return err
	}
	return nameSpace(s.opt.FS.WriteFile("ids", filepath.Join(s.opt.Dir, numbersName), func(f *disk.File) error {
		return f.WriteAt("ids-write", append(text, '\n'), 0)
	}))
}
