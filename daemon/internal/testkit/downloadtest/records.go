package downloadtest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

// lists reads more records than fit in one part.
func lists(r *rig) {
	settled, ended, second := r.n(700), r.n(1100), r.clock.Now().Add(time.Millisecond)
	n := ended + r.n(103)
	j := r.addJob(job("news"))
	r.addTasks(j.ID, 0, n)
	r.handOut(j.ID, n)
	leases := r.lease(wish("worker", n))
	for i, l := range leases {
		switch {
		case i < settled && i%2 == 0:
			r.need(r.Finish(ctx, l, result("text"), attempt))
		case i < ended:
			r.need(r.Fail(ctx, l, download.Attempt{Reason: "no"}, time.Time{}))
		}
		if i%100 == 0 {
			r.clock.Advance(time.Millisecond)
		}
	}
	others, othersLeases := r.leased("other", 3)
	r.need(r.Finish(ctx, othersLeases[0], result("other"), attempt))

	for _, test := range []struct {
		q                 download.Query
		tasks, logs, data int
	}{
		{download.Query{}, n, ended, settled / 2},
		{download.Query{Limit: 1}, 1, 1, 1},
		{download.Query{Since: second}, n, ended - 1, settled / 2},
		{download.Query{Limit: r.n(500) + 1}, r.n(500) + 1, r.n(500) + 1, settled / 2},
		{download.Query{Limit: 5000}, n, ended, settled / 2},
		{download.Query{State: download.Failed}, ended - settled/2, ended, settled / 2},
		{download.Query{State: download.Failed, Limit: r.n(600)}, r.n(600), r.n(600), settled / 2},
		{download.Query{State: download.Ready}, 0, ended, settled / 2},
		{download.Query{Task: leases[0].Task.ID}, 1, 1, 1},
		{download.Query{Task: leases[0].Task.ID, State: download.Done}, 1, 1, 1},
		{download.Query{Task: leases[0].Task.ID, State: download.Failed}, 0, 1, 1},
		{download.Query{Task: leases[1].Task.ID}, 1, 1, 0},
		{download.Query{Task: othersLeases[0].Task.ID}, 0, 0, 0},
	} {
		test.q.Job = j.ID
		tasks, logs, data := r.tasks(test.q), r.logs(test.q), r.data(test.q)
		if len(tasks) != test.tasks || len(logs) != test.logs || len(data) != test.data {
			r.Errorf("%+v: %d tasks, %d logs, %d data; want %d, %d, %d", test.q, len(tasks), len(logs), len(data), test.tasks, test.logs, test.data)
		}
		if !slices.IsSortedFunc(logs, func(a, b download.Log) int { return a.Added.Compare(b.Added) }) {
			r.Errorf("%+v: logs are not by time", test.q)
		}
		seen := map[string]int{}
		for _, task := range tasks {
			seen[task.ID]++
		}
		for _, d := range data {
			seen["data "+d.Task]++
		}
		for _, l := range logs {
			seen["log "+l.Task]++
		}
		for id, n := range seen {
			if n != 1 {
				r.Errorf("%+v: %s came %d times", test.q, id, n)
			}
		}
	}
	wantLen(r, "data of the other job", r.data(download.Query{Job: others.ID}), 1)

	// each may call the store, and end the list.
	end := errors.New("enough")
	calls := 0
	err := r.ListTasks(ctx, download.Query{Job: j.ID}, func(task download.Task) error {
		if calls++; calls == r.n(600) {
			return end
		}
		if calls == 10 {
			r.addTasks(j.ID, 100000, 1)
			_, err := r.Counts(ctx, j.ID)
			return err
		}
		return nil
	})
	if !errors.Is(err, end) || calls != r.n(600) {
		r.Errorf("list ended with %v after %d calls", err, calls)
	}
	r.want("logs", r.ListLogs(ctx, download.Query{Job: j.ID}, func(download.Log) error { return end }), end)
	all := r.logs(download.Query{Job: j.ID})
	slices.Reverse(all)
	for _, n := range []int{1, 20} {
		if got := r.logs(download.Query{Job: j.ID, Newest: true, Limit: n}); !reflect.DeepEqual(got, all[:min(n, len(all))]) {
			r.Errorf("the newest %d logs: %v, want %v", n, got, all[:min(n, len(all))])
		}
	}
	r.want("data", r.ListData(ctx, download.Query{Job: j.ID}, func(download.Data) error { return end }), end)
}

func roles(r *rig) {
	hold := func(owner string, want []string, names ...string) {
		r.Helper()
		got, err := r.Hold(ctx, owner, names, time.Minute)
		r.need(err)
		slices.Sort(got)
		if !slices.Equal(got, want) {
			r.Errorf("%s holds %v, want %v", owner, got, want)
		}
	}
	held := func(prefix string, want map[string]string) {
		r.Helper()
		got, err := r.Holders(ctx, prefix)
		r.need(err)
		if !maps.Equal(got, want) {
			r.Errorf("holders of %q: %v, want %v", prefix, got, want)
		}
	}
	held("", map[string]string{})
	hold("a", []string{"shard/1", "shard/2"}, "shard/1", "shard/2", "shard/1")
	hold("b", []string{"shard/3"}, "shard/2", "shard/3")
	hold("b", []string{"dispatcher"}, "dispatcher")
	hold("b", nil)
	hold("b", []string{"odd.$%_*[name"}, "odd.$%_*[name")
	held("shard/", map[string]string{"shard/1": "a", "shard/2": "a", "shard/3": "b"})
	held("s", map[string]string{"shard/1": "a", "shard/2": "a", "shard/3": "b"})
	held("odd.$%_*[", map[string]string{"odd.$%_*[name": "b"})
	held("o_d", map[string]string{})
	held("shard/1", map[string]string{"shard/1": "a"})
	held("x", map[string]string{})
	r.clock.Advance(30 * time.Second)
	hold("a", []string{"shard/1"}, "shard/1") // renewed
	r.clock.Advance(30 * time.Second)
	held("", map[string]string{"shard/1": "a"})
	hold("b", []string{"shard/2"}, "shard/1", "shard/2")
	r.need(r.LetGo(ctx, "b", []string{"shard/1", "shard/2", "none"})) // what a holds stays
	held("", map[string]string{"shard/1": "a"})
	hold("c", []string{"shard/2"}, "shard/2")
	r.need(r.LetGo(ctx, "c", nil))
	r.clock.Advance(time.Minute)
	held("", map[string]string{})
	r.need(r.LetGo(ctx, "a", []string{"shard/1"})) // its time is over
	hold("d", []string{"shard/1"}, "shard/1")
	r.reopen()
	held("", map[string]string{"shard/1": "d"})
	_, err := r.Sweep(ctx, 0)
	r.need(err)
	held("", map[string]string{"shard/1": "d"})
}

func rolesAtOnce(r *rig) {
	names := make([]string, r.n(64))
	for i := range names {
		names[i] = fmt.Sprint("shard/", i)
	}
	for range 3 {
		var mu sync.Mutex
		by := map[string]int{}
		together(16, func(i int) {
			got, err := r.Hold(ctx, fmt.Sprint(i), names, time.Minute)
			if err != nil {
				r.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			for _, name := range got {
				by[name]++
			}
		})
		for _, name := range names {
			if by[name] != 1 {
				r.Errorf("%s is held by %d at once", name, by[name])
			}
		}
		r.clock.Advance(time.Minute)
	}
}

func endedCalls(r *rig) {
	j, leases := r.leased("news", 1)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err := r.AddTasks(ended, j.ID, newTasks(10, 3000))
	r.want("add tasks", err, context.Canceled)
	_, err = r.Lease(ended, wish("w", 1))
	r.want("lease", err, context.Canceled)
	_, err = r.HandOut(ended, j.ID, 1, 0, time.Hour)
	r.want("hand out", err, context.Canceled)
	r.want("finish", r.Finish(ended, leases[0], result("text"), attempt), context.Canceled)
	r.want("fail", r.Fail(ended, leases[0], attempt, time.Time{}), context.Canceled)
	_, err = r.Sweep(ended, 0)
	r.want("sweep", err, context.Canceled)
	r.want("list", r.ListTasks(ended, download.Query{Job: j.ID}, func(download.Task) error { return nil }), context.Canceled)
	r.wantCounts(j.ID, map[download.State]int{download.Running: 1})
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
}
