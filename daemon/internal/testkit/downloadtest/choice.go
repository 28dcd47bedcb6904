package downloadtest

import (
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// leaseNeeds: a worker gets only tasks of jobs all of whose needs it meets, in the newest version;
// other tasks stay untouched.
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
	// A new version has another need, also after the store was reopened.
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

func leaseChoice(r *rig) {
	lanes := map[int64]download.Lane{}
	var tasks []download.NewTask // two in each shard
	for i := range 512 {
		if shard := i % download.Shards; shard < 8 || shard >= 8+download.Shards-r.n(download.Shards) {
			tasks = append(tasks, download.NewTask{URI: uri(i), Shard: shard})
		}
	}
	for _, lane := range download.Lanes() {
		j := job(string(lane))
		j.Setting.Lane = lane
		j = r.addJob(j)
		lanes[j.ID] = lane
		_, err := r.AddTasks(ctx, j.ID, tasks)
		r.need(err)
		r.handOut(j.ID, 512)
	}
	left := len(download.Lanes()) * len(tasks)
	for _, test := range []struct {
		lanes  []download.Lane
		shards []int
		want   int
	}{
		{nil, allShards, 0},
		{download.Lanes(), nil, 0},
		{[]download.Lane{download.Foreign}, []int{0, 255}, 4},
		{[]download.Lane{download.Foreign}, []int{0, 255}, 0},
		{[]download.Lane{download.Normal, download.Urgency}, []int{3, 4, 5}, 12},
		{[]download.Lane{"unknown"}, allShards, 0},
		{download.Lanes(), []int{-1, 256, 1000}, 0},
		{download.Lanes(), []int{7}, 6},
	} {
		got := r.lease(download.Want{Owner: "w", Max: 100, For: time.Minute, Shards: test.shards, Lanes: test.lanes})
		if len(got) != test.want {
			r.Errorf("lanes %v, shards %v: leased %d, want %d", test.lanes, test.shards, len(got), test.want)
		}
		left -= len(got)
		for _, l := range got {
			if !slices.Contains(test.lanes, lanes[l.Task.Job]) || !slices.Contains(test.shards, l.Task.Shard) {
				r.Errorf("lanes %v, shards %v: leased %+v", test.lanes, test.shards, l.Task)
			}
		}
	}
	// The lane of the newest version counts.
	changed := job(string(download.Foreign))
	changed.Setting.Lane = download.Normal
	_, err := r.ChangeJob(ctx, changed)
	r.need(err)
	wantLen(r, "leased of a lane that has no job any more", r.lease(download.Want{Owner: "w", Max: 10000, For: time.Minute, Shards: allShards, Lanes: []download.Lane{download.Foreign}}), 0)
	wantLen(r, "leased, what is left", r.lease(wish("w", 10000)), left)
}

func off(r *rig) {
	j, leases := r.leased("news", 2)
	r.addTasks(j.ID, 10, 4)
	r.handOut(j.ID, 2)
	r.need(r.SwitchJob(ctx, "news", false))
	wantLen(r, "leased of a job that is off", r.lease(wish("w", 10)), 0)
	wantLen(r, "handed out of a job that is off", r.handOut(j.ID, 10), 0)
	// A running task ends as usual.
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
	r.wantLost("worker", leases[1:], time.Hour)
	r.addTasks(j.ID, 20, 1)
	r.need(r.SwitchJob(ctx, "news", true))
	wantLen(r, "leased of a job that is on again", r.lease(wish("w", 10)), 2)
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 3, download.Running: 3, download.Done: 1})
}
