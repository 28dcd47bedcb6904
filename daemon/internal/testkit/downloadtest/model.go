package downloadtest

import (
	"cmp"
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
	w.r.clock.Advance(time.Duration(w.random.IntN(2000)) * time.Millisecond)
	switch p := w.random.IntN(100); {
	case p < 4:
		w.changeJobs()
	case p < 16:
		w.addTasks()
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
		w.r.reopen()
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

func (w *world) addTasks() {
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
func first[K cmp.Ordered, T any](w *world, what string, can []*modelTask, n int, key func(*modelTask) K, got []T, idOf func(T) string) []*modelTask {
	keys := func(tasks []*modelTask) (all []K) {
		for _, t := range tasks {
			all = append(all, key(t))
		}
		slices.Sort(all)
		return all
	}
	chosen := picked(w, what, can, got, idOf)
	want := keys(can)
	want = want[:min(n, len(want))]
	if have := keys(chosen); !slices.Equal(have, want) {
		w.r.Errorf("%s: chose %v, want %v", what, have, want)
	}
	return chosen
}

// picked returns what a store has chosen, in its order.
func picked[T any](w *world, what string, can []*modelTask, got []T, idOf func(T) string) []*modelTask {
	var chosen []*modelTask
	for _, g := range got {
		id := idOf(g)
		i := slices.IndexFunc(can, func(t *modelTask) bool { return t.ID == id })
		if i < 0 || slices.Contains(chosen, can[i]) {
			w.r.Fatalf("%s: chose %s, which it could not", what, id)
		}
		chosen = append(chosen, can[i])
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
	out := map[int]int{}
	for _, t := range m.tasks {
		if t.State == download.Ready || t.State == download.Running {
			out[download.QueueOf(t.URI)]++
		}
	}
	chosen := picked(w, "hand out", can, got, func(t download.Task) string { return t.ID })
	inTurn(w.r.T, can, chosen, out, min(n, len(can)))
	nth := map[int]int64{}
	for i, t := range chosen {
		queue := download.QueueOf(t.URI)
		t.State, t.Until, t.rank = download.Ready, w.now().Add(20*time.Second), rank+nth[queue]
		nth[queue]++
		if got[i] != t.Task {
			w.r.Errorf("handed out\n%+v, want\n%+v", got[i], t.Task)
		}
	}
}

func (w *world) jobOf(id int64) *modelJob {
	for _, m := range w.jobs {
		if m.ID == id {
			return m
		}
	}
	return nil
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
