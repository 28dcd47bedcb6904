package downloadtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// grouped returns n URIs of each of some hosts, host by host.
func grouped(hosts []string, n int) (tasks []download.NewTask) {
	for _, host := range hosts {
		for i := range n {
			tasks = append(tasks, download.NewTask{URI: fmt.Sprintf("http://%s/%d", host, i), Shard: download.ShardOf(host)})
		}
	}
	return tasks
}

func (r *rig) add(job int64, tasks []download.NewTask) {
	r.Helper()
	_, err := r.AddTasks(ctx, job, tasks)
	r.need(err)
}

// byHost counts tasks by host.
func byHost(tasks []download.Task) map[string]int {
	n := map[string]int{}
	for _, t := range tasks {
		n[download.HostOf(t.URI)]++
	}
	return n
}

// handOutInTurn: however a list is ordered, hosts get equal parts of what is handed out, of those places
// that others do not need; a host that settles nothing holds up no other.
func handOutInTurn(r *rig) {
	j := r.addJob(job("news"))
	hosts := []string{"dead.example", "a.example", "b.example"}
	r.add(j.ID, grouped(hosts, 30))
	got := byHost(r.handOut(j.ID, 12))
	for _, host := range hosts {
		if got[host] != 4 {
			r.Errorf("first: handed out %v, want 4 of each", got)
			break
		}
	}
	// What the healthy ones settle makes room, and they get all of it.
	settle := func() (n int) {
		for _, l := range r.lease(wish("w", 100)) {
			if download.HostOf(l.Task.URI) != "dead.example" {
				r.need(r.Finish(ctx, l, result(""), attempt))
				n++
			}
		}
		return n
	}
	for n, left := settle(), 2*26; left > 0; n = settle() {
		if n == 0 {
			r.Fatal("the healthy hosts get nothing any more")
		}
		n = min(n, left)
		got := byHost(r.handOut(j.ID, n))
		if got["dead.example"] > 0 {
			r.Fatalf("handed out %v: the host that settles nothing has the most already", got)
		}
		left -= n
	}
	// Then there is nobody else.
	settle()
	if got := byHost(r.handOut(j.ID, 100)); len(got) != 1 || got["dead.example"] != 26 {
		r.Errorf("at last: handed out %v, want the other 26 of the first host", got)
	}
}

// handOutOfMany: with many hosts each one has its turn, also those whose tasks were added last.
func handOutOfMany(r *rig) {
	j := r.addJob(job("news"))
	var hosts []string
	for i := range r.n(400) {
		hosts = append(hosts, fmt.Sprintf("h%d.example", i))
	}
	r.add(j.ID, grouped(hosts, 2))
	seen := map[string]int{}
	for range len(hosts) / 5 {
		for host, n := range byHost(r.handOut(j.ID, 5)) {
			seen[host] += n
		}
	}
	// Hosts that hash to one queue have one turn.
	queues := map[int]bool{}
	for _, host := range hosts {
		queues[download.QueueOf("http://"+host+"/")] = true
	}
	if len(seen) < len(queues)*9/10 {
		r.Errorf("%d tasks of %d hosts were handed out, of %d hosts only", len(hosts), len(hosts), len(seen))
	}
	// Tasks with a pause are passed over.
	for _, l := range r.lease(wish("w", 1000)) {
		r.need(r.GiveBack(ctx, l, r.clock.Now().Add(time.Hour)))
	}
	left := len(hosts)
	for left > 0 {
		n := len(r.handOut(j.ID, left))
		if n == 0 {
			r.Fatalf("%d tasks are not handed out", left)
		}
		left -= n
	}
}

// leaseInTurn: a worker gets the tasks of one hand-out from all hosts in turn, and none of hosts of which it has enough.
func leaseInTurn(r *rig) {
	j := r.addJob(job("news"))
	hosts := []string{"a.example", "b.example", "c.example", "d.example"}
	r.add(j.ID, grouped(hosts, 10))
	r.handOut(j.ID, 40)
	tasks := func(leases []download.Lease) (all []download.Task) {
		for _, l := range leases {
			all = append(all, l.Task)
		}
		return all
	}
	got := byHost(tasks(r.lease(wish("w", 8))))
	for _, host := range hosts {
		if got[host] != 2 {
			r.Errorf("leased %v, want 2 of each", got)
			break
		}
	}
	want := wish("w", 100)
	want.Enough = []int{download.QueueOf("http://b.example/"), download.QueueOf("http://nobody.example/")}
	if got := byHost(tasks(r.lease(want))); got["b.example"] != 0 || len(got) != 3 || got["a.example"] != 8 {
		r.Errorf("leased %v, want all but those of the host of which it has enough", got)
	}
	if got := byHost(tasks(r.lease(wish("w", 100)))); len(got) != 1 || got["b.example"] != 8 {
		r.Errorf("leased %v, want the 8 that are left", got)
	}
}

// inTurn checks what a hand-out of n tasks chose of those that it could, when its hosts had out tasks each.
func inTurn(t testing.TB, can []*modelTask, chosen []*modelTask, out map[int]int, n int) {
	t.Helper()
	queue := func(m *modelTask) int { return download.QueueOf(m.URI) }
	got, has := map[int]int{}, map[int]int{}
	for _, m := range can {
		has[queue(m)]++
	}
	for _, m := range chosen {
		got[queue(m)]++
	}
	if len(chosen) != min(n, len(can)) {
		t.Errorf("hand out: chose %d of %d, want %d", len(chosen), len(can), n)
	}
	for q := range got {
		for p := range has {
			if has[p] > got[p] && out[q]+got[q] > out[p]+got[p]+1 {
				t.Errorf("hand out: a host has %d tasks now, another %d though it has more that wait", out[q]+got[q], out[p]+got[p])
			}
		}
	}
	for _, m := range can { // of each host the longest waiting
		for _, c := range chosen {
			if queue(m) == queue(c) && m.State == download.Waiting && m.NotBefore.Before(c.NotBefore) && !slices.Contains(chosen, m) {
				t.Errorf("hand out: %s waits longer than %s", m.URI, c.URI)
			}
		}
	}
}
