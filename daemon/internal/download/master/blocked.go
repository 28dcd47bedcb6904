package master

import (
	"strings"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// blocked says why tasks of a job wait despite live workers, one sentence per reason; nil if none wait.
func blocked(a download.Ability, j download.Job, counts map[download.State]int) []string {
	if counts[download.Waiting]+counts[download.Ready] == 0 || !a.Blocks(j) {
		return nil // a worker that can do them takes over their hosts
	}
	var why, all []string
	needs := append(j.Needs(), download.NeedLane(j.Setting.Lane))
	lacking := download.Lacking(needs, a.Workers, a.Holders)
	for _, need := range needs {
		all = append(all, wordsOf(need))
		if len(lacking[need]) == len(a.Workers) {
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
