package downloadtest

import (
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// leaseNeeds: a worker gets tasks of those jobs alone all of whose needs it has, as the newest version has them; what
// it does not get is not touched.
func leaseNeeds(r *rig) {
	code := download.Code{Language: "starlark", File: "a.star", Text: "x"}
	python := download.Code{Language: "python", File: "a.py", Text: "x"}
	jobs := map[string]download.Job{}
	for name, change := range map[string]func(*download.Job){
		"http":    func(*download.Job) {},
		"browser": func(j *download.Job) { j.Setting.Engine = download.EngineBrowser },
		"script":  func(j *download.Job) { j.Setting.Engine, j.Code = download.EngineScript, code },
		"python":  func(j *download.Job) { j.Setting.Parse.Code = python },
	} {
		j := job(name)
		j.Code = download.Code{}
		change(&j)
		jobs[name] = r.addJob(j)
		r.addTasks(jobs[name].ID, 0, 2)
		r.handOut(jobs[name].ID, 2)
	}
	gets := func(has []string, names ...string) {
		r.Helper()
		want := wish("w", 100)
		want.Has = has
		leases := r.lease(want)
		var got []string
		for _, l := range leases {
			for name, j := range jobs {
				if j.ID == l.Task.Job {
					got = append(got, name)
				}
			}
			r.need(r.Fail(ctx, l, attempt, r.clock.Now()))
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, names) {
			r.Errorf("who has %q gets tasks of %q, want %q", has, got, names)
		}
		for _, name := range names {
			r.handOut(jobs[name].ID, 2)
		}
	}
	gets([]string{}, nil...)
	gets([]string{download.EngineHTTP}, "http")
	gets([]string{download.EngineHTTP, download.EngineBrowser}, "browser", "http")
	gets([]string{download.EngineScript}, "script")
	gets([]string{download.EngineHTTP, download.EngineScript}, "http", "script")
	gets([]string{download.EngineHTTP, download.EngineScript, download.NeedPython}, "http", "python", "script")
	// The choice by ids is bound by it, too.
	ids := wish("w", 100)
	ids.Has = []string{download.EngineHTTP}
	for _, task := range r.tasks(download.Query{Job: jobs["browser"].ID}) {
		ids.IDs = append(ids.IDs, task.ID)
	}
	if got := r.lease(ids); len(got) != 0 {
		r.Errorf("by id it got %d tasks, want none", len(got))
	}
	// Another version needs something else, also after the store was reopened.
	changed := jobs["browser"]
	changed.Setting.Engine = download.EngineHTTP
	_, err := r.ChangeJob(ctx, changed)
	r.need(err)
	gets([]string{download.EngineHTTP}, "browser", "http")
	r.reopen()
	gets([]string{download.EngineBrowser}, nil...)
	gets(nil, "browser", "http", "python", "script")
	for _, task := range r.tasks(download.Query{Job: jobs["python"].ID}) {
		if task.Attempts != 2 {
			r.Errorf("a task has %d attempts, want those of its 2 leases", task.Attempts)
		}
	}
	r.clock.Advance(time.Second)
}
