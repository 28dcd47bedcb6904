// Package report tells people, by mail or by a webhook, that all tasks of a job have ended. A
// report is sent at least once: it is marked in the store after it was sent.
package report

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/cr-clawer/urifilter/daemon/internal/download"
	"github.com/cr-clawer/urifilter/daemon/internal/fetch/uri"
)

const (
	// maxReasons is how many reasons a report names, those of the most tasks first.
	maxReasons = 10
	// maxLooked is how many failed tasks are read to find them.
	maxLooked = 10_000
)

// Report is the report on a job. It is the body of the webhook call.
type Report struct {
	Event   string    `json:"event"` // "job_ended": every task has; "job_failed": and none has a result
	Job     string    `json:"job"`
	Version int       `json:"version"`
	Tasks   Tasks     `json:"tasks"`
	Reasons []Reason  `json:"reasons"` // why tasks have failed
	Time    time.Time `json:"time"`
}

// Tasks counts all tasks of a job.
type Tasks struct {
	Done   int `json:"done"`
	Failed int `json:"failed"`
}

// Reason is why some tasks have failed.
type Reason struct {
	Reason  string `json:"reason"` // its first word, such as robots or timeout
	Tasks   int    `json:"tasks"`
	URI     string `json:"uri"`     // of one of these tasks
	Message string `json:"message"` // of that task
}

var errEnough = errors.New("enough tasks were looked at")

// reportOf makes a report, for which it reads failed tasks.
func reportOf(ctx context.Context, store Store, job download.Job, done, failed int) (Report, error) {
	now, err := store.Now(ctx)
	if err != nil {
		return Report{}, err
	}
	r := Report{Event: "job_ended", Job: job.Name, Version: job.Version, Tasks: Tasks{done, failed}, Reasons: []Reason{}, Time: now.UTC()}
	if done == 0 {
		r.Event = "job_failed"
	}
	looked := 0
	at := map[string]int{}
	err = store.ListTasks(ctx, download.Query{Job: job.ID, State: download.Failed}, func(t download.Task) error {
		if looked++; looked > maxLooked {
			return errEnough
		}
		word := download.ReasonWord(t.Reason)
		i, known := at[word]
		if !known {
			i = len(r.Reasons)
			at[word] = i
			r.Reasons = append(r.Reasons, Reason{Reason: word, URI: uri.Redact(t.URI), Message: uri.Redact(t.Reason)})
		}
		r.Reasons[i].Tasks++
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return Report{}, err
	}
	slices.SortStableFunc(r.Reasons, func(a, b Reason) int { return cmp.Compare(b.Tasks, a.Tasks) })
	r.Reasons = r.Reasons[:min(len(r.Reasons), maxReasons)]
	return r, nil
}

// title is the report in one line.
func (r Report) title() string {
	what := "has ended"
	if r.Event == "job_failed" {
		what = "has failed"
	}
	return fmt.Sprintf("job %s %s: %d tasks done, %d failed", r.Job, what, r.Tasks.Done, r.Tasks.Failed)
}

// text is the report for people.
func (r Report) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "All tasks of job %s (version %d) have ended: %d are done, %d have failed.\n", r.Job, r.Version, r.Tasks.Done, r.Tasks.Failed)
	if len(r.Reasons) > 0 {
		b.WriteString("\nWhy they have failed:\n")
		for _, reason := range r.Reasons {
			fmt.Fprintf(&b, "\n%d by %s, such as %.500s\n  %.1000s\n", reason.Tasks, reason.Reason, reason.URI, reason.Message)
		}
	}
	fmt.Fprintf(&b, "\nuridownloader tasks %s --state failed    lists them.\nuridownloader data %[1]s    lists what was downloaded.\n", r.Job)
	return b.String()
}
