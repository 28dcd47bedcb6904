package downloadtest

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func jobs(r *rig) {
	want := job("news")
	got := r.addJob(want)
	now, err := r.Now(ctx)
	r.need(err)
	if !now.Equal(r.clock.Now()) {
		r.Errorf("now %v, want the clock's %v", now, r.clock.Now())
	}
	if got.ID == 0 {
		r.Error("the job has no id")
	}
	want.ID, want.Version, want.Added, want.Changed = got.ID, 1, now, now
	if !reflect.DeepEqual(got, want) {
		r.Errorf("added\n%+v, want\n%+v", got, want)
	}
	_, err = r.AddJob(ctx, job("news"))
	r.want("a name that is taken", err, download.ErrExists)

	bare := r.addJob(download.Job{Name: "bare"})
	if bare.ID == got.ID || bare.On {
		r.Errorf("bare: %+v", bare)
	}
	r.wantJob(want)
	r.wantJob(bare)
	all, err := r.ListJobs(ctx)
	r.need(err)
	if len(all) != 2 || !reflect.DeepEqual(all[0], bare) || !reflect.DeepEqual(all[1], want) {
		r.Errorf("listed %+v, want both, by name", all)
	}

	r.need(r.SwitchJob(ctx, "news", false))
	want.On = false
	r.wantJob(want)
	r.need(r.SwitchJob(ctx, "news", true))
	want.On = true
	r.wantJob(want)
	r.wantCounts(want.ID, nil)

	r.need(r.MarkReported(ctx, want.ID, 7))
	want.Reported = 7
	r.wantJob(want)
	want.Priority++
	got, err = r.ChangeJob(ctx, want) // keeps it
	r.need(err)
	if got.Reported != 7 {
		r.Errorf("changed: %+v", got)
	}
	r.wantJob(want)
	r.want("the end of no job", r.MarkReported(ctx, want.ID+bare.ID, 7), download.ErrNoJob)
}

func (r *rig) wantJob(want download.Job) {
	r.Helper()
	got, err := r.Job(ctx, want.Name)
	r.need(err)
	if !reflect.DeepEqual(got, want) {
		r.Errorf("job\n%+v, want\n%+v", got, want)
	}
}

func versions(r *rig) {
	first := r.addJob(job("news"))
	r.clock.Advance(time.Hour)

	same := job("news")
	same.Priority, same.Filter, same.On = 9, "other", false
	got, err := r.ChangeJob(ctx, same)
	r.need(err)
	want := first
	want.Priority, want.Filter = 9, "other" // and it stays on
	if !reflect.DeepEqual(got, want) {
		r.Errorf("changed\n%+v, want no further version:\n%+v", got, want)
	}
	r.wantJob(want)

	further := same
	further.Setting.MaxAttempts, further.Setting.Proxies, further.Setting.Lane = 5, nil, download.Foreign
	second, err := r.ChangeJob(ctx, further)
	r.need(err)
	if second.Version != 2 || !second.Changed.Equal(r.clock.Now()) || !second.Added.Equal(first.Added) || second.ID != first.ID {
		r.Errorf("second version: %+v", second)
	}
	r.wantJob(second)
	further.Code.Text = "fetch(1)\n"
	third, err := r.ChangeJob(ctx, further)
	r.need(err)
	if third.Version != 3 || third.Code.Text != "fetch(1)\n" {
		r.Errorf("third version: %+v", third)
	}

	for version, setting := range map[int]download.Setting{1: first.Setting, 2: further.Setting, 3: further.Setting} {
		old, err := r.JobVersion(ctx, first.ID, version)
		r.need(err)
		if old.Version != version || !old.Setting.Equal(setting) || old.Priority != 9 || (version < 3) != (old.Code == first.Code) {
			r.Errorf("version %d: %+v", version, old)
		}
	}
	for _, version := range []int{0, 4, -1} {
		_, err := r.JobVersion(ctx, first.ID, version)
		r.want(fmt.Sprintf("version %d", version), err, download.ErrNoJob)
	}
	r.addTasks(first.ID, 0, 1)
	r.handOut(first.ID, 1)
	if l := r.lease(wish("w", 1)); len(l) != 1 || l[0].Version != 3 {
		r.Errorf("lease %+v: want version 3", l)
	}
}

func jobsAtOnce(r *rig) {
	var added, refused atomic.Int32
	idsSeen := make([]int64, 16)
	together(16, func(i int) {
		switch _, err := r.AddJob(ctx, job("one")); {
		case err == nil:
			added.Add(1)
		case errors.Is(err, download.ErrExists):
			refused.Add(1)
		default:
			r.Error(err)
		}
		j, err := r.AddJob(ctx, job(fmt.Sprintf("own%d", i)))
		if err != nil {
			r.Error(err)
		}
		idsSeen[i] = j.ID
	})
	if added.Load() != 1 || refused.Load() != 15 {
		r.Errorf("one name: added %d times, refused %d times", added.Load(), refused.Load())
	}
	seen := map[int64]bool{}
	for _, id := range idsSeen {
		if id == 0 || seen[id] {
			r.Errorf("ids %v: want 16 different ones", idsSeen)
		}
		seen[id] = true
	}
	// Concurrent changes: every one of them is a version that can be read.
	together(8, func(i int) {
		j := job("one")
		j.Code.Text = fmt.Sprintf("code %d", i)
		if _, err := r.ChangeJob(ctx, j); err != nil {
			r.Error(err)
		}
	})
	last, err := r.Job(ctx, "one")
	r.need(err)
	texts := map[string]bool{}
	for v := 1; v <= last.Version; v++ {
		j, err := r.JobVersion(ctx, last.ID, v)
		r.need(err)
		texts[j.Code.Text] = true
	}
	if last.Version != 9 || len(texts) != 9 {
		r.Errorf("version %d, texts %v: want 9 of each", last.Version, texts)
	}
}

func refusals(r *rig) {
	for i := range download.MaxRefusals + 8 {
		r.need(r.KeepRefusal(ctx, download.Refusal{Name: fmt.Sprintf("job%d", i), Text: "line 1: a\nline 2: b", Added: time.Unix(1, 0)}))
		r.clock.Advance(time.Second)
	}
	for _, limit := range []int{0, 1, 3, 10_000} {
		got, err := r.Refusals(ctx, limit)
		r.need(err)
		if len(got) != min(limit, download.MaxRefusals) {
			r.Errorf("limit %d: %d refusals", limit, len(got))
		}
		for i, refusal := range got {
			want := download.Refusal{Name: fmt.Sprintf("job%d", download.MaxRefusals+7-i), Text: "line 1: a\nline 2: b", Added: r.clock.Now().Add(-time.Duration(i+1) * time.Second)}
			if !reflect.DeepEqual(refusal, want) {
				r.Errorf("refusal %d: %+v, want %+v", i, refusal, want)
			}
		}
	}
}

func unknown(r *rig) {
	_, err := r.Job(ctx, "none")
	r.want("job", err, download.ErrNoJob)
	_, err = r.ChangeJob(ctx, job("none"))
	r.want("change", err, download.ErrNoJob)
	r.want("switch", r.SwitchJob(ctx, "none", true), download.ErrNoJob)
	r.want("drop", r.DropJob(ctx, "none"), download.ErrNoJob)
	_, err = r.JobVersion(ctx, 99, 1)
	r.want("version", err, download.ErrNoJob)
	_, err = r.Counts(ctx, 99)
	r.want("counts", err, download.ErrNoJob)
	_, err = r.AddTasks(ctx, 99, newTasks(0, 2))
	r.want("add tasks", err, download.ErrNoJob)
	_, err = r.AddTasks(ctx, 99, nil)
	r.want("add no tasks", err, download.ErrNoJob)
	_, err = r.HandOut(ctx, 99, 1, 0, time.Hour)
	r.want("hand out", err, download.ErrNoJob)
	for _, id := range []string{"", "x", "zz", strings.Repeat("0", 32), strings.Repeat("0", 31), "../../etc/passwd", "\x00"} {
		_, err = r.Body(ctx, id)
		r.want("body of "+id, err, download.ErrNoData)
		for _, number := range []int64{99, 0} {
			l := download.Lease{Task: download.Task{ID: id, Job: number, Fence: 1}}
			r.wantVoid(l)
			r.wantLost("w", []download.Lease{l}, time.Minute, l)
		}
	}
	for _, q := range []download.Query{{Job: 99}, {Job: 99, Task: "zz"}, {Job: 0}} {
		if len(r.tasks(q)) != 0 || len(r.logs(q)) != 0 || len(r.data(q)) != 0 {
			r.Errorf("query %+v finds something", q)
		}
	}
	if all, err := r.ListJobs(ctx); err != nil || len(all) != 0 {
		r.Errorf("jobs %v, %v", all, err)
	}
}
