package download

import (
	"slices"
	"strings"
)

// NeedPython is what a worker must have for scripts in Python, beside the engines.
const NeedPython = "python"

// Needs are what a worker must have for all that the job wants of it, in order: engines, and NeedPython.
func (j Job) Needs() []string {
	needs := []string{j.Setting.Engine}
	for _, code := range []Code{j.Code, j.Setting.Generate.Code, j.Setting.Parse.Code} {
		switch {
		case code.Text == "":
		case code.Language == LanguagePython:
			needs = append(needs, EngineScript, NeedPython)
		default:
			needs = append(needs, EngineScript)
		}
	}
	slices.Sort(needs)
	return slices.Compact(needs)
}

// NeedLane is what a worker must have for tasks of a lane: that it serves it.
func NeedLane(lane Lane) string { return "prior:" + string(lane) }

// Serves tells whether a worker that asks so may have tasks of a job that needs all of these.
func (w Want) Serves(needs []string) bool {
	return w.Has == nil || !slices.ContainsFunc(needs, func(need string) bool { return !slices.Contains(w.Has, need) })
}

// HasPrefix begins the names that a live worker holds of what it has: see HasName.
const HasPrefix = "has/"

// HasName is the name by which a worker says that it has what some jobs need.
func HasName(need, owner string) string { return HasPrefix + need + "/" + owner }

// Lacking tells of each need which of the live workers lack it, by the names that Holders has found for HasPrefix. A
// worker that says nothing of what it has is of an older release, and has it all.
func Lacking(needs []string, workers []string, holders map[string]string) map[string][]string {
	says := map[string]bool{}
	for name, owner := range holders {
		if strings.HasPrefix(name, HasPrefix) {
			says[owner] = true
		}
	}
	lacking := map[string][]string{}
	for _, need := range needs {
		for _, worker := range workers {
			if says[worker] && holders[HasName(need, worker)] == "" {
				lacking[need] = append(lacking[need], worker)
			}
		}
	}
	return lacking
}

// Unable are those of the live workers that cannot do all that a job needs, or do not serve its lane.
func (j Job) Unable(workers []string, holders map[string]string) []string {
	var unable []string
	for _, those := range Lacking(append(j.Needs(), NeedLane(j.Setting.Lane)), workers, holders) {
		unable = append(unable, those...)
	}
	slices.Sort(unable)
	return slices.Compact(unable)
}
