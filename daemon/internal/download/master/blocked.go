package master

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// ability is who can do what, of the workers that are alive.
type ability struct {
	workers []string
	holders map[string]string // of download.HasPrefix
}

// abilities asks the store for it.
func (m *Master) abilities(ctx context.Context) (a ability, err error) {
	workers, err := m.Store.Holders(ctx, download.WorkerPrefix)
	if err != nil {
		return a, err
	}
	for name := range workers {
		a.workers = append(a.workers, strings.TrimPrefix(name, download.WorkerPrefix))
	}
	slices.Sort(a.workers)
	a.holders, err = m.Store.Holders(ctx, download.HasPrefix)
	return a, err
}

// blocked is why tasks of a job wait although there are workers, a sentence each; nil if none do.
func (a ability) blocked(j download.Job, counts map[download.State]int) []string {
	if len(a.workers) == 0 || counts[download.Waiting]+counts[download.Ready] == 0 {
		return nil
	}
	var why []string
	needs := j.Needs()
	lacking := download.Lacking(needs, a.workers, a.holders)
	for _, need := range needs {
		switch n := len(lacking[need]); n {
		case 0:
		case len(a.workers):
			why = append(why, "no worker can run "+wordsOf(need)+": its tasks wait for one that can")
		default:
			why = append(why, fmt.Sprintf("%d of %d workers cannot run %s: the tasks of their hosts wait: %s", n, len(a.workers), wordsOf(need), strings.Join(lacking[need], ", ")))
		}
	}
	return why
}

// wordsOf says what a need is, and where it is told how to have it.
func wordsOf(need string) string {
	switch need {
	case download.EngineBrowser:
		return "download_engine: browser (docs/browser.md)"
	case download.EngineScript:
		return "scripts (docs/jobcode.md, The jail)"
	case download.NeedPython:
		return "scripts in Python (script.python)"
	}
	return "download_engine: " + need
}
