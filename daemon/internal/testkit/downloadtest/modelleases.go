package downloadtest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

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
			if m.On && slices.Contains(want.Lanes, m.Setting.Lane) && t.State == download.Ready && t.Until.After(w.now()) && slices.Contains(want.Shards, t.Shard) {
				can = append(can, t)
			}
		}
	}
	got := w.r.lease(want)
	idOf := func(l download.Lease) string { return l.Task.ID }
	for i, t := range first(w, "lease", can, want.Max, func(t *modelTask) int64 { return t.rank }, got, idOf) {
		t.State, t.Until, t.Owner, t.NotBefore = download.Running, w.now().Add(want.For), want.Owner, time.Time{}
		t.Attempts++
		t.Fence++
		t.version = w.jobOf(t.Job).Version
		if wanted := (download.Lease{Task: t.Task, Version: t.version}); got[i] != wanted {
			w.r.Errorf("leased\n%+v, want\n%+v", got[i], wanted)
		}
	}
	w.held = append(w.held, got...)
}

// holder returns the task of a valid lease and its job, or nil.
func (w *world) holder(l download.Lease) (*modelJob, *modelTask) {
	m := w.jobOf(l.Task.Job)
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
