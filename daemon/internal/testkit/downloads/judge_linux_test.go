package downloads

import (
	"fmt"
	"slices"
)

// judge compares the stored data of a job with what came in and what the servers saw. URIs whose
// addition was not acknowledged may exist.
type judge struct {
	*master
	sites *sites
	found []string // faults
	stops int      // of processes, and losses of shards: each may have given back downloads that had begun
	tasks int
	done  int
	tries int

	abandoned, maxAbandoned int
}

func (j *judge) fault(format string, args ...any) {
	if len(j.found) < 100 {
		j.found = append(j.found, fmt.Sprintf(format, args...))
	}
}

func (j *judge) job(sd *sender) error {
	name := sd.name
	j.found = append(j.found, sd.found...)
	tasks := map[string]*taskRecord{}
	byURI := map[string]bool{}
	err := records(j.master, name, "tasks", func(t taskRecord) {
		if tasks[t.ID] != nil || byURI[t.URI] {
			j.fault("%s: has more than one task", t.URI)
		}
		if !sd.sent[t.URI] {
			j.fault("%s: is a task, and nobody sent it", t.URI)
		}
		tasks[t.ID], byURI[t.URI] = &t, true
	})
	if err != nil {
		return fmt.Errorf("tasks of %s: %w", name, err)
	}
	for uri := range sd.acked {
		if !byURI[uri] && !sd.taken[uri] {
			j.fault("%s: its addition was answered, and it does not exist", uri)
		}
	}
	for uri := range sd.taken {
		if asked, _ := j.sites.requests(uri); byURI[uri] || asked > 0 {
			j.fault("%s: the filter had it before, and it is a task (%t), or was asked for", uri, byURI[uri])
		}
	}
	logs := map[string][]logRecord{}
	if err := records(j.master, name, "logs", func(l logRecord) { logs[l.Task] = append(logs[l.Task], l) }); err != nil {
		return fmt.Errorf("logs of %s: %w", name, err)
	}
	data := map[string]dataRecord{}
	err = records(j.master, name, "data", func(d dataRecord) {
		if _, twice := data[d.Task]; twice {
			j.fault("%s: has more than one result", d.URI)
		}
		data[d.Task] = d
	})
	if err != nil {
		return fmt.Errorf("data of %s: %w", name, err)
	}
	for id, t := range tasks {
		j.task(t, logs[id], data[id])
		delete(data, id)
	}
	for _, d := range data {
		j.fault("%s: has a result and no task", d.URI)
	}
	return nil
}

// task checks one task.
func (j *judge) task(t *taskRecord, logs []logRecord, d dataRecord) {
	j.tasks++
	j.tries += t.Attempts
	j.abandoned += t.Abandoned
	j.maxAbandoned = max(j.maxAbandoned, t.Abandoned)
	want := j.sites.want(t.URI)
	switch {
	case t.State != "done" && t.State != "failed":
		j.fault("%s: is %s in the end", t.URI, t.State)
	case t.State == "done" && want == "":
		j.fault("%s: is done, and its page does not exist", t.URI)
	case t.State == "done" && d.SHA256 != want:
		j.fault("%s: its result has SHA-256 %q, want %s", t.URI, d.SHA256, want)
	case t.State == "failed" && d.Task != "":
		j.fault("%s: has failed and has a result", t.URI)
	case t.State == "failed" && t.Reason == "":
		j.fault("%s: has failed without a reason", t.URI)
	case t.State == "failed" && want != "":
		j.fault("%s: has failed after %d attempts: %s", t.URI, t.Attempts, t.Reason)
	}
	if t.State == "done" {
		j.done++
	}
	abandoned := 0
	logs = slices.DeleteFunc(logs, func(l logRecord) bool {
		if l.Attempt == 0 {
			abandoned++
		}
		return l.Attempt == 0
	})
	slices.SortFunc(logs, func(a, b logRecord) int { return a.Attempt - b.Attempt })
	for i, l := range logs {
		if l.Attempt != i+1 {
			j.fault("%s: entry %d of its log is of attempt %d", t.URI, i+1, l.Attempt)
		}
		if good := l.Reason == ""; good != (i == len(logs)-1 && t.State == "done") {
			j.fault("%s, which is %s: attempt %d of %d ended with %q", t.URI, t.State, l.Attempt, len(logs), l.Reason)
		}
	}
	if t.Attempts != len(logs) || t.Abandoned != abandoned {
		j.fault("%s: %d attempts and %d abandoned leases, and in the log %d and %d", t.URI, t.Attempts, t.Abandoned, len(logs), abandoned)
	}
	// An abandoned lease may have made a request, and so may a task that was given back at a stop, or
	// when its shard was lost.
	if asked, cutOff := j.sites.requests(t.URI); asked < t.Attempts || asked > t.Attempts+t.Abandoned+j.stops+cutOff {
		j.fault("%s: is %s, was asked for %d times, %d of them cut off, and has %d attempts and %d abandoned leases", t.URI, t.State, asked, cutOff, t.Attempts, t.Abandoned)
	}
}
