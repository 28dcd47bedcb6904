package fleet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/provision/atomicfile"
	"github.com/cr-clawer/urifilter/provision/report"
)

// keepRuns is the number of records that a folder keeps.
const keepRuns = 100

// record is a saved run: Runs/<id>.json, mode 0600. It is written when the run
// begins and whenever a host is done, so that a killed run can be resumed, too.
type record struct {
	Version int       `json:"version"` // 1
	ID      string    `json:"id"`
	Target  string    `json:"target"`
	Who     string    `json:"who,omitempty"`
	Inputs  string    `json:"inputs,omitempty"`
	Resumed string    `json:"resumed,omitempty"` // the run that this one went on with
	Began   time.Time `json:"began"`
	Ended   time.Time `json:"ended,omitzero"`
	Code    int       `json:"code"` // 130 until the end: a run without an end was interrupted
	Hosts   []outcome `json:"hosts"`
}

type outcome struct {
	Host   string        `json:"host"`
	Done   bool          `json:"done"` // nothing is left to do
	Status report.Status `json:"status,omitempty"`
	Step   string        `json:"step,omitempty"`
	Error  string        `json:"error,omitempty"`
}

// resume skips the hosts that the last run of the target completed, and those
// that were not part of it: it may have been limited to some hosts.
func (r *run) resume() error {
	if r.o.Runs == "" || r.o.Plan || r.o.NoLock {
		return nil
	}
	r.record = &record{Version: 1, ID: r.o.ID, Target: r.o.Target, Who: r.o.Who, Inputs: r.o.Inputs, Began: r.began, Code: CodeInterrupted}
	if !r.o.Resume {
		return nil
	}
	last, err := lastRun(r.o.Runs, r.o.Target)
	if err != nil {
		return Usage(err)
	}
	if last == nil {
		return Usage(fmt.Errorf("resume: no run of %s is kept in %s\nhint: run it without -resume", r.o.Target, r.o.Runs))
	}
	changed := last.Inputs != r.o.Inputs && last.Inputs != "" && r.o.Inputs != ""
	if changed {
		r.notice = fmt.Sprintf("what is rolled out has changed since run %s: all of its hosts are done again", last.ID)
	}
	r.record.Resumed = last.ID
	for _, m := range r.members {
		i := slices.IndexFunc(last.Hosts, func(h outcome) bool { return h.Host == m.name })
		m.apart = i < 0
		m.skip = m.apart || last.Hosts[i].Done && !changed
	}
	return nil
}

// lastRun returns the newest record of the target, or nil.
func lastRun(folder, target string) (last *record, err error) {
	names, err := recordNames(folder)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			return nil, err
		}
		var rec record
		if err := json.Unmarshal(text, &rec); err != nil {
			return nil, fmt.Errorf("%s: %w\nhint: remove it; it only matters for -resume", filepath.Join(folder, name), err)
		}
		if rec.Target == target && (last == nil || !rec.Began.Before(last.Began)) {
			last = &rec
		}
	}
	return last, nil
}

// recordNames are sorted by time, to the second.
func recordNames(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".json") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// save writes the state of the run; s is nil before its end. A failure to save does not
// stop the run, and is reported once.
func (r *run) save(s *Summary) {
	if r.record == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Hosts = r.record.Hosts[:0]
	for _, m := range r.members {
		if m.apart {
			continue
		}
		m.mu.Lock()
		done := m.done == m.jobs
		m.mu.Unlock()
		r.record.Hosts = append(r.record.Hosts, outcome{
			Host: m.name, Done: m.skip || done, Status: m.status,
			Step: m.sum.Step, Error: r.o.Masker.Mask(m.sum.Error),
		})
	}
	if s != nil {
		r.record.Ended, r.record.Code = time.Now(), s.Code
	}
	if err := write(r.o.Runs, r.record); err != nil && !r.unsaved {
		r.unsaved = true
		r.warnings = append(r.warnings, report.Warning{Text: fmt.Sprintf("the run is not kept and cannot be resumed: %v", err)})
	}
	if s != nil {
		prune(r.o.Runs)
	}
}

// write writes a record atomically.
func write(folder string, rec *record) error {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(rec, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(folder, rec.ID+".json"), append(text, '\n'), 0o600)
}

// prune removes the oldest records. A failure does no harm.
func prune(folder string) {
	names, err := recordNames(folder)
	if err != nil {
		return
	}
	for len(names) > keepRuns {
		_ = os.Remove(filepath.Join(folder, names[0]))
		names = names[1:]
	}
}
