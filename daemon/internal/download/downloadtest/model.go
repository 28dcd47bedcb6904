package downloadtest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// modelJob is a job of the contract's model in memory.
type modelJob struct {
	download.Job
	tasks map[string]*modelTask
	logs  []download.Log // by time
	data  map[string]string
}

type modelTask struct {
	download.Task
	rank    int64
	version int
}

// world is the model of the contract in memory, with the state that random operations need.
type world struct {
	r      *rig
	random *rand.Rand
	jobs   map[string]*modelJob
	held   []download.Lease // all leases ever given, the newest last
	uris   int
}

// model does random operations on the store and on a model of the contract, and wants the same
// answers from both. Where the contract leaves a choice, the model follows the store.
func model(r *rig) {
	seed := rand.Uint64()
	r.Logf("seed %d", seed)
	w := &world{r: r, random: rand.New(rand.NewPCG(seed, 0)), jobs: map[string]*modelJob{}}
	for step := range r.opt.Steps {
		w.step()
		if step%250 == 249 {
			w.compare()
		}
		if r.Failed() {
			r.Fatalf("step %d", step)
		}
	}
	r.reopen()
	w.compare()
}

func (w *world) now() time.Time { return w.r.clock.Now() }

func (w *world) someJob() *modelJob { return w.jobs[fmt.Sprint("job", w.random.IntN(4))] }

func (w *world) step() {
	r := w.r
	w.r.clock.Advance(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	switch p := w.random.IntN(100); {
	case p < 4:
		w.changeJobs()
	case p < 16:
		w.add()
	case p < 32:
		w.handOut()
	case p < 52:
		w.lease()
	case p < 58:
		w.renew()
	case p < 90:
		w.settle()
	case p < 98:
		w.sweep()
	default:
		r.reopen()
	}
}

func (w *world) changeJobs() {
	r := w.r
	name := fmt.Sprint("job", w.random.IntN(4))
	m := w.jobs[name]
	j := job(name)
	j.Setting.MaxAttempts = w.random.IntN(4)
	j.Setting.Lane = download.Lanes()[w.random.IntN(3)]
	switch {
	case m == nil:
		added, err := r.AddJob(ctx, j)
		r.need(err)
		w.jobs[name] = &modelJob{Job: added, tasks: map[string]*modelTask{}, data: map[string]string{}}
	case w.random.IntN(4) == 0:
		r.need(r.DropJob(ctx, name))
		delete(w.jobs, name)
	case w.random.IntN(2) == 0:
		m.On = !m.On
		r.need(r.SwitchJob(ctx, name, m.On))
	default:
		changed, err := r.ChangeJob(ctx, j)
		r.need(err)
		if !m.Setting.Equal(j.Setting) {
			m.Version++
			m.Setting, m.Changed = j.Setting, w.now()
		}
		if fmt.Sprint(changed) != fmt.Sprint(m.Job) {
			r.Errorf("changed\n%+v, want\n%+v", changed, m.Job)
		}
	}
}

func (w *world) add() {
	m := w.someJob()
	if m == nil {
		return
	}
	tasks := newTasks(max(0, w.uris-w.random.IntN(20)), 1+w.random.IntN(20))
	w.uris += w.random.IntN(10)
	want := 0
	for _, n := range tasks {
		id := download.TaskID(m.ID, n.URI)
		if m.tasks[id] == nil {
			m.tasks[id] = &modelTask{Task: download.Task{ID: id, Job: m.ID, URI: n.URI, Shard: n.Shard, State: download.Waiting, NotBefore: w.now(), Added: w.now()}}
			want++
		}
	}
	got, err := w.r.AddTasks(ctx, m.ID, tasks)
	w.r.need(err)
	if got != want {
		w.r.Errorf("added %d, want %d", got, want)
	}
}

// first compares what a store has chosen with the first n by a key; equal keys are
// interchangeable.
func first[K cmp.Ordered](w *world, what string, can []*modelTask, n int, key func(*modelTask) K, got []string) []*modelTask {
	keys := func(tasks []*modelTask) []K {
		var all []K
		for _, t := range tasks {
			all = append(all, key(t))
		}
		slices.Sort(all)
		return all
	}
	var chosen []*modelTask
	for _, id := range got {
		i := slices.IndexFunc(can, func(t *modelTask) bool { return t.ID == id })
		if i < 0 || slices.Contains(chosen, can[i]) {
			w.r.Fatalf("%s: chose %s, which it could not", what, id)
		}
		chosen = append(chosen, can[i])
	}
	want := keys(can)
	want = want[:min(n, len(want))]
	if have := keys(chosen); !slices.Equal(have, want) {
		w.r.Errorf("%s: chose %v, want %v", what, have, want)
	}
	return chosen
}

func (w *world) handOut() {
	m := w.someJob()
	if m == nil {
		return
	}
	n, rank := w.random.IntN(12), int64(w.random.IntN(3))
	got, err := w.r.HandOut(ctx, m.ID, n, rank, 20*time.Second)
	w.r.need(err)
	var can []*modelTask
	for _, t := range m.tasks {
		if m.On && t.State == download.Waiting && !t.NotBefore.After(w.now()) {
			can = append(can, t)
		}
	}
	var chosen []string
	for _, t := range got {
		chosen = append(chosen, t.ID)
	}
	for i, t := range first(w, "hand out", can, n, func(t *modelTask) int64 { return t.NotBefore.UnixMilli() }, chosen) {
		t.State, t.Until, t.rank = download.Ready, w.now().Add(20*time.Second), rank
		if got[i] != t.Task {
			w.r.Errorf("handed out\n%+v, want\n%+v", got[i], t.Task)
		}
	}
}

func (w *world) lease() {
	want := wish(fmt.Sprint("w", w.random.IntN(3)), w.random.IntN(10))
	want.For = 15 * time.Second
	want.Lanes = want.Lanes[:w.random.IntN(4)]
	if w.random.IntN(3) == 0 {
		want.Shards = allShards[:w.random.IntN(256)]
	}
	var can []*modelTask
	for _, m := range w.jobs {
		for _, t := range m.tasks {
			if m.On && t.State == download.Ready && t.Until.After(w.now()) && slices.Contains(want.Shards, t.Shard) {
				if w.random.IntN(3) == 0 {
					want.IDs = append(want.IDs, t.ID)
				}
				can = append(can, t)
			}
		}
	}
	if w.random.IntN(3) != 0 {
		want.IDs = nil
	}
	can = slices.DeleteFunc(can, func(t *modelTask) bool {
		if want.IDs != nil {
			return !slices.Contains(want.IDs, t.ID)
		}
		return !slices.Contains(want.Lanes, w.of(t.Job).Setting.Lane)
	})
	got := w.r.lease(want)
	var chosen []string
	for _, l := range got {
		chosen = append(chosen, l.Task.ID)
	}
	for i, t := range first(w, "lease", can, want.Max, func(t *modelTask) int64 { return t.rank }, chosen) {
		t.State, t.Until, t.Owner, t.NotBefore = download.Running, w.now().Add(want.For), want.Owner, time.Time{}
		t.Attempts++
		t.Fence++
		t.version = w.of(t.Job).Version
		if wanted := (download.Lease{Task: t.Task, Version: t.version}); got[i] != wanted {
			w.r.Errorf("leased\n%+v, want\n%+v", got[i], wanted)
		}
	}
	w.held = append(w.held, got...)
}

func (w *world) of(id int64) *modelJob {
	for _, m := range w.jobs {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// holder returns the task of a lease that holds, or nil.
func (w *world) holder(l download.Lease) (*modelJob, *modelTask) {
	m := w.of(l.Task.Job)
	if m == nil {
		return nil, nil
	}
	t := m.tasks[l.Task.ID]
	if t == nil || t.State != download.Running || t.Fence != l.Task.Fence || !t.Until.After(w.now()) {
		return nil, nil
	}
	return m, t
}

// someLease returns a random lease, usually one of the newest.
func (w *world) someLease() (download.Lease, bool) {
	if len(w.held) == 0 {
		return download.Lease{}, false
	}
	return w.held[len(w.held)-1-w.random.IntN(min(len(w.held), 40))], true
}

func (w *world) renew() {
	owner := fmt.Sprint("w", w.random.IntN(3))
	var some []download.Lease
	var want []string
	for range w.random.IntN(8) {
		l, ok := w.someLease()
		if !ok || slices.ContainsFunc(some, func(o download.Lease) bool { return o.Task.ID == l.Task.ID }) {
			continue
		}
		some = append(some, l)
		if _, t := w.holder(l); t != nil && t.Owner == owner {
			t.Until = w.now().Add(30 * time.Second)
		} else {
			want = append(want, l.Task.ID)
		}
	}
	lost, err := w.r.Renew(ctx, owner, some, 30*time.Second)
	w.r.need(err)
	slices.Sort(lost)
	slices.Sort(want)
	if !slices.Equal(lost, want) {
		w.r.Errorf("lost %v, want %v", lost, want)
	}
}

func (w *world) settle() {
	l, ok := w.someLease()
	if !ok {
		return
	}
	m, t := w.holder(l)
	end := func(state download.State, reason string, notBefore time.Time) {
		if t != nil {
			t.State, t.Reason, t.NotBefore, t.Until, t.Owner = state, reason, notBefore, time.Time{}, ""
		}
	}
	log := func(a download.Attempt) {
		if t != nil {
			m.logs = append(m.logs, download.Log{Job: m.ID, Task: t.ID, TaskURI: t.URI, Number: t.Attempts, Version: t.version, Attempt: a, Added: w.now()})
		}
	}
	var err error
	later := w.now().Add(time.Duration(w.random.IntN(5000)) * time.Millisecond)
	a := download.Attempt{Status: w.random.IntN(600), Reason: fmt.Sprint("reason ", w.random.IntN(100)), HostName: "h", Spent: time.Duration(w.random.IntN(1e6)) * time.Microsecond}
	switch w.random.IntN(5) {
	case 0:
		err = w.r.GiveBack(ctx, l, later)
		if t != nil {
			t.Attempts--
			end(download.Waiting, t.Reason, later)
		}
	case 1:
		err = w.r.Fail(ctx, l, a, later)
		log(a)
		end(download.Waiting, a.Reason, later)
	case 2:
		err = w.r.Fail(ctx, l, a, time.Time{})
		log(a)
		end(download.Failed, a.Reason, time.Time{})
	default:
		a.Reason = ""
		text := fmt.Sprintf("%*d", w.random.IntN(100), w.random.Uint64())
		if w.random.IntN(20) == 0 {
			text = fmt.Sprintf("%*d", w.r.opt.LargeBody+w.random.IntN(100), 1)
		}
		err = w.r.Finish(ctx, l, result(text), a)
		log(a)
		end(download.Done, "", time.Time{})
		if t != nil {
			m.data[t.ID] = text
		}
	}
	if t == nil != errors.Is(err, download.ErrLeaseLost) || t != nil && err != nil {
		w.r.Errorf("settle: %v, the lease holds: %t", err, t != nil)
	}
}

func (w *world) sweep() {
	keep := time.Duration(0)
	if w.random.IntN(3) == 0 {
		keep = 10 * time.Minute
	}
	var want download.Swept
	for _, m := range w.jobs {
		if keep > 0 {
			before := len(m.logs)
			m.logs = slices.DeleteFunc(m.logs, func(l download.Log) bool { return l.Added.Before(w.now().Add(-keep)) })
			want.Logs += before - len(m.logs)
		}
		for _, t := range m.tasks {
			if t.Until.IsZero() || t.Until.After(w.now()) {
				continue
			}
			if t.State == download.Ready {
				want.Unclaimed++
				t.State, t.Until = download.Waiting, time.Time{}
				continue
			}
			want.Abandoned++
			t.Attempts--
			t.Abandoned++
			t.Reason = download.Abandoned(t.Owner, t.Abandoned)
			m.logs = append(m.logs, download.Log{Job: m.ID, Task: t.ID, TaskURI: t.URI, Version: t.version, Attempt: download.Attempt{Reason: t.Reason}, Added: w.now()})
			t.State, t.Until, t.Owner, t.NotBefore = download.Waiting, time.Time{}, "", w.now().Add(download.PauseAbandoned(t.ID, t.Abandoned))
			if t.Abandoned >= download.MaxAbandoned {
				t.State, t.NotBefore = download.Failed, time.Time{}
				want.Failed++
			}
		}
	}
	w.r.wantSwept(keep, want)
}

// compare compares all that can be read with the model.
func (w *world) compare() {
	r := w.r
	for _, m := range w.jobs {
		r.wantJob(m.Job)
		counts := map[download.State]int{}
		for _, t := range m.tasks {
			counts[t.State]++
		}
		r.wantCounts(m.ID, counts)
		tasks := r.tasks(download.Query{Job: m.ID})
		if len(tasks) != len(m.tasks) {
			r.Errorf("%d tasks, want %d", len(tasks), len(m.tasks))
		}
		for _, t := range tasks {
			if want := m.tasks[t.ID]; want == nil || want.Task != t {
				r.Errorf("task\n%+v, want\n%+v", t, want)
			}
		}
		order := func(a, b download.Log) int {
			return cmp.Or(a.Added.Compare(b.Added), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Number, b.Number))
		}
		logs := r.logs(download.Query{Job: m.ID})
		slices.SortStableFunc(logs, order)
		slices.SortStableFunc(m.logs, order)
		if !slices.Equal(logs, m.logs) {
			r.Errorf("%d logs, want %d, or others", len(logs), len(m.logs))
		}
		data := r.data(download.Query{Job: m.ID})
		if len(data) != len(m.data) {
			r.Errorf("%d data, want %d", len(data), len(m.data))
		}
		for _, d := range data {
			if want, ok := m.data[d.Task]; !ok || d.SHA256 != sha(want) || d.Size != int64(len(want)) || r.body(d.Task) != want {
				r.Errorf("data %+v, want that of %d bytes", d, len(want))
			}
		}
	}
	all, err := r.ListJobs(ctx)
	r.need(err)
	if len(all) != len(w.jobs) {
		r.Errorf("%d jobs, want %d", len(all), len(w.jobs))
	}
}
