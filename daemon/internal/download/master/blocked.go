package master

import (
	"context"
	"slices"
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// ability says which of the live workers can do what.
type ability struct {
	workers []string
	holders map[string]string // of download.HasPrefix
}

// abilities reads the abilities from the store.
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

// blocked says why tasks of a job wait despite live workers, one sentence per reason; nil if none wait.
func (a ability) blocked(j download.Job, counts map[download.State]int) []string {
	if len(a.workers) == 0 || counts[download.Waiting]+counts[download.Ready] == 0 {
		return nil
	}
	if len(j.Unable(a.workers, a.holders)) < len(a.workers) {
		return nil // a worker that can do them takes over their hosts
	}
	var why, all []string
	needs := append(j.Needs(), download.NeedLane(j.Setting.Lane))
	lacking := download.Lacking(needs, a.workers, a.holders)
	for _, need := range needs {
		all = append(all, wordsOf(need))
		if len(lacking[need]) == len(a.workers) {
			why = append(why, "no worker has "+wordsOf(need)+": its tasks wait for one that has it")
		}
	}
	if why == nil {
		why = []string{"no worker has all of " + strings.Join(all, ", ") + ": its tasks wait for one that has"}
	}
	return why
}

// wordsOf describes a need, and says where to read how to meet it.
func wordsOf(need string) string {
	switch need {
	case download.EngineBrowser:
		return "download_engine: browser (docs/browser.md)"
	case download.EngineScript:
		return "scripts (docs/jobcode.md, The jail)"
	case download.NeedPython:
		return "scripts in Python (script.python)"
	}
	if lane, ok := strings.CutPrefix(need, download.NeedLane("")); ok {
		return "prior: " + lane + " (worker.lanes)"
	}
	return "download_engine: " + need
}
