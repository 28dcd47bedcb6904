package downloadtest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/testkit/downloadtest/victim"
)

// Kills runs victims, and kills each after a random number of lines, the first ones early and the last
// ones late. Each time it checks that the store opens, has everything that was acknowledged, and has no
// task with two results or an incomplete one. process makes the process that calls [victim.Use].
func Kills(t *testing.T, rounds int, clock *Clock, open func() download.Store, process func(name string) *exec.Cmd) {
	acknowledged := map[string]string{} // task to "added", "failed OWNER" or "done SHA256"
	for round := range rounds {
		after := 1 + (round*400+rand.IntN(400))/rounds
		lines := victim.KillAfter(t, process(fmt.Sprint("r", round)), after)
		for _, line := range lines {
			id, what := said(line)
			if what != "added" && acknowledged[id] != "" && acknowledged[id] != "added" {
				t.Fatalf("round %d: %s was settled before: %s", round, line, acknowledged[id])
			}
			acknowledged[id] = what
		}
		r := &rig{T: t, Store: open(), clock: clock, open: open}
		r.recovered(acknowledged)
		r.need(r.Close())
		if t.Failed() {
			t.Fatalf("after round %d, %d lines", round, len(lines))
		}
	}
	settled := 0
	for _, what := range acknowledged {
		if what != "added" {
			settled++
		}
	}
	t.Logf("%d tasks acknowledged, %d of them settled", len(acknowledged), settled)
	if settled < rounds {
		t.Errorf("%d tasks were settled in %d rounds: nothing was tried", settled, rounds)
	}
}

// Recovered checks that a store has everything that the lines of one [victim.Use] acknowledge,
// whose process or machine has ended in any way, and no task with two results or an incomplete one.
// Without the line that a victim prints first, the store only has to open.
func Recovered(t *testing.T, clock *Clock, open func() download.Store, lines []string) {
	t.Helper()
	r := &rig{T: t, Store: open(), clock: clock, open: open}
	defer func() { r.need(r.Close()) }()
	if !slices.Contains(lines, "ready") {
		return
	}
	acknowledged := map[string]string{}
	for _, line := range lines {
		if id, what := said(line); what != "ready" {
			acknowledged[id] = what
		}
	}
	r.recovered(acknowledged)
}

// said returns the task of a victim's line, and what the line says about it.
func said(line string) (id, what string) {
	what, rest, _ := strings.Cut(line, " ")
	id, rest, _ = strings.Cut(rest, " ")
	return id, strings.TrimSpace(what + " " + rest)
}

// recovered is check before and after leases and hand-outs have expired.
func (r *rig) recovered(acknowledged map[string]string) {
	r.check(acknowledged)
	r.clock.Advance(2 * time.Hour)
	_, err := r.Sweep(ctx, 0)
	r.need(err)
	r.check(acknowledged)
}

// check compares the store with what was acknowledged.
func (r *rig) check(acknowledged map[string]string) {
	r.Helper()
	j, err := r.Job(ctx, "news")
	r.need(err)
	tasks := map[string]download.Task{}
	counts := map[download.State]int{}
	for _, task := range r.tasks(download.Query{Job: j.ID}) {
		tasks[task.ID] = task
		counts[task.State]++
	}
	r.wantCounts(j.ID, counts)
	data := map[string]download.Data{}
	for _, d := range r.data(download.Query{Job: j.ID}) {
		if _, twice := data[d.Task]; twice {
			r.Errorf("%s has two results", d.Task)
		}
		data[d.Task] = d
		if got := sha(r.body(d.Task)); got != d.SHA256 || tasks[d.Task].State != download.Done {
			r.Errorf("%s: data that is of another body, or of a task that is %s", d.Task, tasks[d.Task].State)
		}
	}
	logs := map[string]int{}
	for _, l := range r.logs(download.Query{Job: j.ID}) {
		logs[l.Task]++
	}
	for _, id := range slices.Sorted(maps.Keys(acknowledged)) {
		task, ok := tasks[id]
		what, rest, _ := strings.Cut(acknowledged[id], " ")
		switch {
		case !ok:
			r.Errorf("%s was acknowledged, and does not exist", acknowledged[id])
		case what == "failed" && (task.State != download.Failed || task.Reason != "no "+rest):
			r.Errorf("%s %s: is %+v", id, acknowledged[id], task)
		case what == "done" && (task.State != download.Done || data[id].SHA256 != rest):
			r.Errorf("%s %s: is %+v, %+v", id, acknowledged[id], task, data[id])
		}
	}
	for id, task := range tasks {
		_, stored := data[id]
		if stored != (task.State == download.Done) {
			r.Errorf("%s is %s, and has data: %t", id, task.State, stored)
		}
		ended := task.Attempts + task.Abandoned
		if task.State == download.Running {
			ended--
		}
		if logs[id] != ended {
			r.Errorf("%s is %s: %d logs of %d attempts and abandoned leases", id, task.State, logs[id], ended)
		}
	}
}
