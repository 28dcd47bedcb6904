package downloadtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// Victim uses a store until its process is killed: it adds tasks, hands them out, leases and
// settles them, eight callers at once, and prints what was acknowledged, a line each. name tells
// the runs apart, and large is a size at which bodies are kept in another way.
func Victim(s download.Store, name string, large int) error {
	var out sync.Mutex
	say := func(format string, a ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", a...)
	}
	j, err := s.AddJob(ctx, job("news"))
	if errors.Is(err, download.ErrExists) {
		j, err = s.Job(ctx, "news")
	}
	if err != nil {
		return err
	}
	say("ready")
	failed := make(chan error, 8)
	for i := range 8 {
		go func() {
			random := rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))
			owner := fmt.Sprintf("%s-%d", name, i)
			for k := 0; ; k++ {
				if err := victimStep(s, j.ID, owner, k, large, random, say); err != nil {
					failed <- err
					return
				}
			}
		}()
	}
	return <-failed
}

func victimStep(s download.Store, job int64, owner string, k, large int, random *rand.Rand, say func(string, ...any)) error {
	var tasks []download.NewTask
	for n := range 1 + random.IntN(20) {
		tasks = append(tasks, download.NewTask{URI: fmt.Sprintf("https://x/%s/%d/%d", owner, k, n), Shard: random.IntN(download.Shards)})
	}
	if _, err := s.AddTasks(ctx, job, tasks); err != nil {
		return err
	}
	for _, t := range tasks {
		say("added %s", download.TaskID(job, t.URI))
	}
	if _, err := s.HandOut(ctx, job, 20, int64(random.IntN(3)), time.Hour); err != nil {
		return err
	}
	want := wish(owner, 12)
	want.For = time.Hour
	leases, err := s.Lease(ctx, want)
	if err != nil {
		return err
	}
	for _, l := range leases {
		switch random.IntN(8) {
		case 0:
			if err = s.Fail(ctx, l, download.Attempt{Reason: "no " + owner}, time.Time{}); err == nil {
				say("failed %s %s", l.Task.ID, owner)
			}
		case 1:
			err = s.GiveBack(ctx, l, time.Time{})
		case 2: // left to the sweep
		default:
			size := random.IntN(300)
			if random.IntN(10) == 0 {
				size = large + 1 + random.IntN(large)
			}
			text := fmt.Sprintf("%s %d %*d", owner, k, size, 1)
			if err = s.Finish(ctx, l, result(text), download.Attempt{Status: 200, HostName: owner}); err == nil {
				say("done %s %s", l.Task.ID, sha(text))
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Kills runs victims, each of which it kills after a random number of lines, and sees after each
// that the store opens, has all that was acknowledged, and no task with two results or a part of
// one. victim makes the process that calls Victim.
func Kills(t *testing.T, rounds int, clock *Clock, open func() download.Store, victim func(name string) *exec.Cmd) {
	acknowledged := map[string]string{} // task to "added", "failed OWNER" or "done SHA256"
	for round := range rounds {
		lines := killAfter(t, victim(fmt.Sprint("r", round)), 1+rand.IntN(800))
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

// Recovered sees that a store has all that was acknowledged by the lines of one [Victim], whose process
// or machine has ended somehow, and no task with two results or a part of one. Without the line with
// which a victim begins, the store has to open, and no more.
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

// said is what a line of a victim tells of which task.
func said(line string) (id, what string) {
	what, rest, _ := strings.Cut(line, " ")
	id, rest, _ = strings.Cut(rest, " ")
	return id, strings.TrimSpace(what + " " + rest)
}

// recovered is checkKilled before and after what was leased or handed out is over.
func (r *rig) recovered(acknowledged map[string]string) {
	r.checkKilled(acknowledged)
	r.clock.Advance(2 * time.Hour)
	_, err := r.Sweep(ctx, 0)
	r.need(err)
	r.checkKilled(acknowledged)
}

// killAfter runs a victim, kills it when it has printed so many lines, and returns all that it had
// printed until it was dead.
func killAfter(t *testing.T, cmd *exec.Cmd, n int) []string {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err = errors.Join(err, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	var lines []string
	in := bufio.NewReader(out)
	started := false
	for {
		line, err := in.ReadString('\n')
		if errors.Is(err, io.EOF) || err != nil { // a part of a line was not said
			break
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "ready" {
			started = true
			continue
		}
		if lines = append(lines, line); len(lines) == n {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
	}
	_ = cmd.Wait() // it was killed
	if !started || len(lines) < n {
		t.Fatalf("the victim ended by itself: %v\n%s", lines, stderr.String())
	}
	return lines
}

// checkKilled holds the store of a killed process against what was acknowledged.
func (r *rig) checkKilled(acknowledged map[string]string) {
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
			r.Errorf("%s was acknowledged, and is not there", acknowledged[id])
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
