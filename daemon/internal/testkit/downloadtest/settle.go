package downloadtest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync/atomic"
	"testing/iotest"
	"time"
	"unicode/utf8"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
)

func sha(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func finish(r *rig) {
	j, leases := r.leased("news", 2)
	changed := job("news")
	changed.Setting.Timeout = time.Minute
	_, err := r.ChangeJob(ctx, changed)
	r.need(err)
	r.clock.Advance(5 * time.Second)
	r.need(r.Finish(ctx, leases[0], result("text"), attempt))
	l := leases[0].Task
	task := r.task(j.ID, l.ID)
	want := l
	want.State, want.Owner, want.Until = download.Done, "", time.Time{}
	if task != want {
		r.Errorf("task\n%+v, want\n%+v", task, want)
	}
	res := result("text")
	data := download.Data{
		Job: j.ID, Task: l.ID, Version: 1, TaskURI: l.URI, URI: res.URI, Status: 200, Header: res.Header, ContentType: "text/html",
		Encoding: "utf-8", Size: 4, SHA256: sha("text"), Records: res.Records, HostName: "w1", Added: r.clock.Now(),
	}
	if got := r.data(download.Query{Job: j.ID}); len(got) != 1 || !reflect.DeepEqual(got[0], data) {
		r.Errorf("data\n%+v, want\n%+v", got, data)
	}
	log := download.Log{Job: j.ID, Task: l.ID, TaskURI: l.URI, Number: 1, Version: 1, Attempt: attempt, Added: r.clock.Now()}
	if got := r.logs(download.Query{Job: j.ID}); len(got) != 1 || got[0] != log {
		r.Errorf("logs\n%+v, want\n%+v", got, log)
	}
	if got := r.body(l.ID); got != "text" {
		r.Errorf("body %q", got)
	}
	_, err = r.Body(ctx, leases[1].Task.ID)
	r.want("body of a task that runs", err, download.ErrNoData)

	// With nothing in it.
	r.need(r.Finish(ctx, leases[1], download.Result{}, download.Attempt{}))
	got := r.data(download.Query{Job: j.ID, Task: leases[1].Task.ID})
	if len(got) != 1 || got[0].Size != 0 || got[0].SHA256 != sha("") || len(got[0].Header) != 0 || len(got[0].Records) != 0 {
		r.Errorf("empty result: %+v", got)
	}
	if got := r.body(leases[1].Task.ID); got != "" {
		r.Errorf("body %q, want none", got)
	}
}

// finishAtOnce: of many callers with one lease, one settles it, and its result is stored whole.
func finishAtOnce(r *rig) {
	for _, size := range []int{100, r.opt.LargeBody + 1} {
		j, leases := r.leased(fmt.Sprint("news", size), min(4, r.n(40)))
		for _, l := range leases {
			texts := make([]string, 16)
			for i := range texts {
				texts[i] = fmt.Sprintf("%*d", size, i)
			}
			var won atomic.Int32
			winner := -1
			failed := false
			together(16, func(i int) {
				var err error
				if i == 15 {
					err = r.Fail(ctx, l, attempt, time.Time{})
				} else {
					err = r.Finish(ctx, l, result(texts[i]), attempt)
				}
				if err == nil {
					won.Add(1)
					winner, failed = i, i == 15
				} else if !errors.Is(err, download.ErrLeaseLost) {
					r.Error(err)
				}
			})
			if won.Load() != 1 {
				r.Fatalf("%d have settled one lease", won.Load())
			}
			data := r.data(download.Query{Job: j.ID, Task: l.Task.ID})
			if logs := r.logs(download.Query{Job: j.ID, Task: l.Task.ID}); len(logs) != 1 {
				r.Errorf("%d logs, want 1", len(logs))
			}
			if failed {
				if len(data) != 0 || r.task(j.ID, l.Task.ID).State != download.Failed {
					r.Errorf("failed, with data %v", data)
				}
				continue
			}
			if len(data) != 1 || data[0].SHA256 != sha(texts[winner]) || r.body(l.Task.ID) != texts[winner] {
				r.Errorf("data is not that of who has settled")
			}
		}
	}
}

func bodies(r *rig) {
	large := r.opt.LargeBody
	sizes := []int{0, 1, 1000, large - 1, large, large + 1, 3*large + 7}
	j, leases := r.leased("news", len(sizes))
	text := func(i int) string {
		return string(bytes.Repeat([]byte{byte(i), 0, 0xff, 'a', 0x80}, sizes[i]/5+1)[:sizes[i]])
	}
	for i, l := range leases {
		res := result("")
		res.Body = iotest.OneByteReader(strings.NewReader(text(i)))
		if sizes[i] > 1000 {
			res.Body = iotest.DataErrReader(strings.NewReader(text(i)))
		}
		res.Records = []byte(text(min(i, 3)))
		r.need(r.Finish(ctx, l, res, attempt))
	}
	r.reopen()
	_, err := r.Sweep(ctx, 0)
	r.need(err)
	for i, l := range leases {
		got := r.data(download.Query{Job: j.ID, Task: l.Task.ID})
		if len(got) != 1 || got[0].Size != int64(sizes[i]) || got[0].SHA256 != sha(text(i)) || string(got[0].Records) != text(min(i, 3)) {
			r.Errorf("%d bytes: data of %d bytes, or another", sizes[i], got[0].Size)
		}
		if r.body(l.Task.ID) != text(i) {
			r.Errorf("%d bytes: the body is another", sizes[i])
		}
	}
}

// brokenBody: a body that cannot be read to its end is not stored, and the lease still holds.
func brokenBody(r *rig) {
	j, leases := r.leased("news", 1)
	broken := errors.New("connection reset")
	for _, size := range []int{0, 10, r.opt.LargeBody * 2} {
		res := result("")
		res.Body = io.MultiReader(strings.NewReader(strings.Repeat("x", size)), iotest.ErrReader(broken))
		r.want(fmt.Sprintf("after %d bytes", size), r.Finish(ctx, leases[0], res, attempt), broken)
	}
	if len(r.data(download.Query{Job: j.ID})) != 0 || len(r.logs(download.Query{Job: j.ID})) != 0 {
		r.Error("a broken body has stored something")
	}
	r.wantCounts(j.ID, map[download.State]int{download.Running: 1})
	r.need(r.Finish(ctx, leases[0], result("whole"), attempt))
	if got := r.body(leases[0].Task.ID); got != "whole" {
		r.Errorf("body %q", got)
	}
}

func fail(r *rig) {
	j, leases := r.leased("news", 2)
	a := download.Attempt{Status: 503, Reason: "dns: no such host", HostName: "w2", Spent: time.Microsecond}
	retry := r.clock.Now().Add(time.Minute)
	r.need(r.Fail(ctx, leases[0], a, retry))
	got := r.task(j.ID, leases[0].Task.ID)
	if got.State != download.Waiting || got.Attempts != 1 || got.Reason != a.Reason || !got.NotBefore.Equal(retry) || got.Owner != "" || !got.Until.IsZero() {
		r.Errorf("to be tried again: %+v", got)
	}
	r.need(r.Fail(ctx, leases[1], a, time.Time{}))
	got = r.task(j.ID, leases[1].Task.ID)
	if got.State != download.Failed || got.Attempts != 1 || got.Reason != a.Reason || !got.NotBefore.IsZero() {
		r.Errorf("failed: %+v", got)
	}
	r.want("fail twice", r.Fail(ctx, leases[1], a, time.Time{}), download.ErrLeaseLost)
	r.clock.Advance(time.Minute)
	r.handOut(j.ID, 5)
	again := r.lease(wish("w", 5))
	if len(again) != 1 || again[0].Task.Attempts != 2 || again[0].Task.Fence != 2 {
		r.Fatalf("leased %+v", again)
	}
	r.need(r.Finish(ctx, again[0], result("text"), attempt))
	if got := r.task(j.ID, leases[0].Task.ID); got.Reason != "" || got.Attempts != 2 {
		r.Errorf("done at last: %+v", got)
	}
	logs := r.logs(download.Query{Job: j.ID, Task: leases[0].Task.ID})
	if len(logs) != 2 || logs[0].Number != 1 || logs[0].Attempt != a || logs[1].Number != 2 || logs[1].Attempt != attempt {
		r.Errorf("logs %+v, want both attempts in order", logs)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Done: 1, download.Failed: 1})
}

// retry: failed tasks begin anew, others stay, and the end of the job is reported once more.
func retry(r *rig) {
	j, leases := r.leased("news", 5)
	other, others := r.leased("other", 1)
	failed := download.Attempt{Status: 404, Reason: "status: it is gone"}
	for _, l := range leases[:3] {
		r.need(r.Fail(ctx, l, failed, time.Time{}))
	}
	r.need(r.Fail(ctx, others[0], failed, time.Time{}))
	r.need(r.Finish(ctx, leases[3], result("text"), attempt))
	r.need(r.MarkReported(ctx, j.ID, 4))
	r.clock.Advance(time.Minute)
	want := []string{leases[0].Task.ID, leases[1].Task.ID, leases[3].Task.ID, leases[4].Task.ID, others[0].Task.ID, "zz", leases[0].Task.ID}
	n, err := r.Retry(ctx, j.ID, want)
	r.need(err)
	if n != 2 {
		r.Errorf("%d tasks wait again, want the 2 of the job that have failed", n)
	}
	r.wantCounts(j.ID, map[download.State]int{download.Waiting: 2, download.Running: 1, download.Done: 1, download.Failed: 1})
	r.wantCounts(other.ID, map[download.State]int{download.Failed: 1})
	got := r.task(j.ID, leases[0].Task.ID)
	if got.State != download.Waiting || got.Attempts != 0 || got.Abandoned != 0 || got.Fence != 1 || !got.NotBefore.Equal(r.clock.Now()) || got.Owner != "" {
		r.Errorf("to be tried again: %+v", got)
	}
	if again, err := r.Job(ctx, "news"); err != nil || again.Reported != 0 {
		r.Errorf("job %+v, %v: its end was reported, want that it was not", again, err)
	}
	if n, err := r.Retry(ctx, j.ID, want); n != 0 || err != nil {
		r.Errorf("the same call: %d, %v, want none", n, err)
	}
	if n, err := r.Retry(ctx, j.ID, nil); n != 0 || err != nil {
		r.Errorf("no tasks: %d, %v, want none", n, err)
	}
	_, err = r.Retry(ctx, 12345, want)
	r.want("retry of no job", err, download.ErrNoJob)
	r.handOut(j.ID, 5)
	again := r.lease(wish("w", 5))
	if len(again) != 2 || again[0].Task.Attempts != 1 || again[0].Task.Fence != 2 {
		r.Fatalf("leased %+v", again)
	}
	r.need(r.Finish(ctx, again[0], result("text"), attempt))
	if logs := r.logs(download.Query{Job: j.ID, Task: again[0].Task.ID}); len(logs) != 2 {
		r.Errorf("logs %+v, want both attempts", logs)
	}
	// More than fit in one statement.
	many, all := r.leased("many", r.n(2500))
	var ids []string
	for _, l := range all {
		r.need(r.Fail(ctx, l, failed, time.Time{}))
		ids = append(ids, l.Task.ID)
	}
	if n, err := r.Retry(ctx, many.ID, ids); n != len(ids) || err != nil {
		r.Errorf("%d, %v, want all %d", n, err, len(ids))
	}
	r.wantCounts(many.ID, map[download.State]int{download.Waiting: len(ids)})
}

func reasons(r *rig) {
	texts := []string{
		strings.Repeat("é", download.MaxReason), "x" + strings.Repeat("é", download.MaxReason), strings.Repeat("😀", 2560),
		strings.Repeat("😀", 2560) + "!", "a\xff\x00b", "line\nline",
	}
	j, leases := r.leased("news", len(texts))
	for i, l := range leases {
		r.need(r.Fail(ctx, l, download.Attempt{Reason: texts[i]}, time.Time{}))
		want := download.CutReason(texts[i])
		logs := r.logs(download.Query{Job: j.ID, Task: l.Task.ID})
		task := r.task(j.ID, l.Task.ID)
		for _, got := range []string{logs[0].Reason, task.Reason} {
			if got != want || len(got) > download.MaxReason || !utf8.ValidString(got) {
				r.Errorf("reason of %d bytes: kept %d, want %d", len(texts[i]), len(got), len(want))
			}
		}
	}
}
