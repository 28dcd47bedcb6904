package download

import (
	"slices"
	"strings"
)

// NeedPython is what a worker needs for scripts in Python, besides the engines.
const NeedPython = "python"

// Needs returns all that a worker needs for the tasks of the job, in order: engines, and NeedPython.
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

// NeedLane is what a worker needs for tasks of a lane: it must serve that lane.
func NeedLane(lane Lane) string { return "prior:" + string(lane) }

// Serves reports whether a worker with these wants may have tasks of a job with all of these needs.
func (w Want) Serves(needs []string) bool {
	return w.Has == nil || !slices.ContainsFunc(needs, func(need string) bool { return !slices.Contains(w.Has, need) })
}

// HasPrefix begins the names by which a live worker says what it has: see HasName.
const HasPrefix = "has/"

// HasName is the name that a worker holds to say that it meets a need.
func HasName(need, owner string) string { return HasPrefix + need + "/" + owner }

// Lacking returns for each need which of the live workers do not meet it, by the names that Holders has
// found for HasPrefix. A worker that holds no such name is of an older release, and meets all needs.
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

// Unable returns those live workers that cannot do all that a job needs, or do not serve its lane.
func (j Job) Unable(workers []string, holders map[string]string) []string {
	var unable []string
	for _, those := range Lacking(append(j.Needs(), NeedLane(j.Setting.Lane)), workers, holders) {
		unable = append(unable, those...)
	}
	slices.Sort(unable)
	return slices.Compact(unable)
}
