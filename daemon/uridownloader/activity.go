package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/configs/terminal"
	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/download/master"
	"github.com/cr-clawer/urifilter/daemon/internal/program/human"
	"github.com/cr-clawer/urifilter/daemon/uridownloader/internal/job"
)

// activity is a master's answer about current activity, with what a comparison with the previous answer adds.
type activity struct {
	master.Activity
	Jobs []activeJob `json:"jobs"`
}

type activeJob struct {
	master.ActiveJob
	// Rate is how many tasks per second have ended since the last poll; null at first.
	Rate *float64 `json:"ended_per_second"`
}

func (j activeJob) ended() int { return j.in(download.Done) + j.in(download.Failed) }

func (j activeJob) in(state download.State) int { return j.Tasks[string(state)] }

// left is the time until the last task will have ended at this rate; false: unknown, or none is left.
func (j activeJob) left() (time.Duration, bool) {
	open := j.in(download.Waiting) + j.in(download.Ready) + j.in(download.Running)
	if j.Rate == nil || *j.Rate <= 0 || open == 0 {
		return 0, false
	}
	seconds := float64(open) / *j.Rate
	if seconds > (1000 * time.Hour).Seconds() {
		return 0, false
	}
	return max(time.Second, time.Duration(seconds*float64(time.Second)).Round(time.Second)), true
}

// follow adds what a comparison with the last poll shows: rates, and earlier errors.
func (a *activity) follow(before activity) {
	passed := a.Time.Sub(before.Time).Seconds()
	for i := range a.Jobs {
		j := &a.Jobs[i]
		was := slices.IndexFunc(before.Jobs, func(b activeJob) bool { return b.Name == j.Name })
		if was < 0 || passed <= 0 {
			continue
		}
		// The count is lower if a job was dropped and added again.
		rate := max(0, float64(j.ended()-before.Jobs[was].ended())/passed)
		j.Rate = &rate
	}
	a.Since = before.Since
	a.ErrorsCut = a.ErrorsCut || before.ErrorsCut
	for _, e := range before.Errors {
		same := slices.IndexFunc(a.Errors, func(o master.AttemptErrors) bool { return o.Job == e.Job && o.Reason == e.Reason })
		if same < 0 {
			a.Errors = append(a.Errors, e)
		} else {
			a.Errors[same].Attempts += e.Attempts
		}
	}
	slices.SortStableFunc(a.Errors, func(x, y master.AttemptErrors) int {
		return cmp.Or(cmp.Compare(y.Attempts, x.Attempts), strings.Compare(x.Job, y.Job), strings.Compare(x.Reason, y.Reason))
	})
}

// maxErrors is the most error lines in a table.
const maxErrors = 10

// write writes a table for people.
func (a activity) write(w io.Writer) error {
	dispatcher := cmp.Or(a.Dispatcher, "none: nothing is handed out")
	if _, err := fmt.Fprintf(w, "%s  dispatcher: %s\n\n", a.Time.Local().Format(time.DateTime), terminal.Text(dispatcher)); err != nil {
		return err
	}
	rows := [][]string{{"JOB", "STATUS"}}
	for _, state := range download.States() {
		rows[0] = append(rows[0], strings.ToUpper(string(state)))
	}
	rows[0] = append(rows[0], "ENDED/S", "LEFT")
	for _, j := range a.Jobs {
		row := []string{j.Name, j.Status}
		for _, state := range download.States() {
			row = append(row, human.Count(int64(j.in(state))))
		}
		rate, left := "-", "-"
		if j.Rate != nil {
			rate = strconv.FormatFloat(*j.Rate, 'f', 1, 64)
		}
		if d, ok := j.left(); ok {
			left = human.Duration(d)
		}
		rows = append(rows, append(row, rate, left))
	}
	if err := human.Table(w, rows, map[int]bool{0: true, 1: true}); err != nil {
		return err
	}
	for _, j := range a.Jobs {
		if err := job.WriteBlocked(w, j.Name, j.Blocked); err != nil {
			return err
		}
	}
	if err := a.writeHosts(w); err != nil {
		return err
	}
	rows = [][]string{{"WORKER", "SHARDS"}}
	for _, worker := range a.Workers {
		rows = append(rows, []string{worker.Name, strconv.Itoa(worker.Shards)})
	}
	if len(a.Workers) == 0 {
		rows = append(rows, []string{"none: nothing is downloaded"})
	}
	if _, err := io.WriteString(w, "\n"); err != nil {
		return err
	}
	if err := human.Table(w, rows, map[int]bool{0: true}); err != nil || len(a.Errors) == 0 {
		return err
	}
	return a.writeErrors(w)
}

// writeHosts writes which hosts hold jobs up that have tasks waiting.
func (a activity) writeHosts(w io.Writer) error {
	rows := [][]string{{"HOST", "HANDED OUT", "FAILED", "JOB"}}
	for _, j := range a.Jobs {
		if j.in(download.Waiting) == 0 {
			continue
		}
		for _, h := range j.Hosts {
			rows = append(rows, []string{h.Host, human.Count(int64(h.HandedOut)), human.Count(int64(h.Failed)), j.Name})
		}
	}
	if len(rows) == 1 {
		return nil
	}
	if _, err := io.WriteString(w, "\nhosts with the most tasks handed out, of jobs in which others wait\n"); err != nil {
		return err
	}
	return human.Table(w, rows, map[int]bool{0: true, 3: true})
}

func (a activity) writeErrors(w io.Writer) error {
	note := ""
	if a.ErrorsCut {
		note = ", and more that were not counted"
	}
	if _, err := fmt.Fprintf(w, "\nattempts that failed since %s%s\n", a.Since.Local().Format(time.TimeOnly), note); err != nil {
		return err
	}
	rows := [][]string{{"ATTEMPTS", "REASON", "JOB"}}
	for _, e := range a.Errors[:min(len(a.Errors), maxErrors)] {
		rows = append(rows, []string{human.Count(int64(e.Attempts)), e.Reason, e.Job})
	}
	return human.Table(w, rows, map[int]bool{1: true, 2: true})
}
