package downloads

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"
)

// job is a job of a campaign.
type job struct {
	name, filter    string
	share, priority int // percent of the tasks
	plan
	late    bool // comes after some seconds
	dropped bool // is dropped while its tasks run, and then made again under the same name
}

// jobs are one with a filter, one that shares its hosts with a longer delay, one of high priority
// that comes late, and one that is dropped.
func jobs(o Options) []job {
	return []job{
		{name: "news", share: 55, filter: "uri_download", priority: 3, plan: plan{o.Delay, 2}},
		{name: "shop", share: 30, priority: 3, plan: plan{o.Delay * 3 / 2, 1}},
		{name: "late", share: 10, priority: 9, plan: plan{o.Delay, 3}, late: true},
		{name: "brief", share: 5, priority: 5, plan: plan{o.Delay, 2}, dropped: true},
	}
}

// text is the job as it is sent. Leases without an attempt do not use up the three attempts.
func (j job) text() string {
	return fmt.Sprintf("name: %s\nfilter: %q\npriority: %d\nsetting: {delay: %v, concurrency: %d, dispatch: 100000, max_download_times: 3, robots: false, timeout: 1m}\n",
		j.name, j.filter, j.priority, j.delay, j.concurrency)
}

// sender sends the URIs of a job, and records what became of them.
type sender struct {
	job
	o      Options
	fleet  *fleet
	master *master
	sites  *sites
	random *rand.Rand
	stop   <-chan struct{}

	mu          sync.Mutex
	acked, sent map[string]bool
	taken       map[string]bool // the filter had them before, so they are no tasks
	found       []string        // faults in answers
	ended       bool
}

// rest waits, unless the campaign ends.
func (sd *sender) rest(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-sd.stop:
		return false
	}
}

// until retries until there is no error.
func (sd *sender) until(try func() error) bool {
	for try() != nil {
		if !sd.rest(50 * time.Millisecond) {
			return false
		}
	}
	return true
}

func (sd *sender) run() {
	defer func() {
		sd.mu.Lock()
		sd.ended = true
		sd.mu.Unlock()
	}()
	if sd.late && !sd.rest(5*time.Second) {
		return
	}
	add := func() error { return sd.master.addJob(sd.text()) }
	if !sd.until(add) {
		return
	}
	n := sd.o.Tasks * sd.share / 100
	if sd.dropped {
		if n /= 2; !sd.send("dropped", n) || !sd.drop() || !sd.until(add) {
			return
		}
		sd.mu.Lock()
		clear(sd.acked)
		clear(sd.sent)
		sd.mu.Unlock()
	}
	sd.send(sd.name, n)
}

// drop drops the job when some of its tasks are done and others run, or when all have ended before
// it noticed.
func (sd *sender) drop() bool {
	for {
		counts, err := sd.master.counts(sd.name)
		open := counts["waiting"] + counts["ready"] + counts["running"]
		if err == nil && counts["done"] > 0 && (counts["running"] > 0 || open == 0) {
			break
		}
		if !sd.rest(100 * time.Millisecond) {
			return false
		}
	}
	if !sd.until(func() error { return sd.master.dropJob(sd.name) }) {
		return false
	}
	sd.sites.forbid("dropped")
	return true
}

// send sends n URIs in batches over about half of the campaign, each until it is answered; for some
// it never learns whether they arrived. It reports whether all were sent.
func (sd *sender) send(plan string, n int) bool {
	batch := max(10, n/100)
	for i := 0; i < n; i += batch {
		var uris, taken []string
		for k := i; k < min(n, i+batch); k++ {
			uri := sd.sites.uri(plan, k, sd.random)
			if sd.filter != "" && sd.o.Filter && sd.random.IntN(100) == 0 {
				taken = append(taken, uri)
			}
			uris = append(uris, uri)
		}
		if len(taken) > 0 && !sd.until(func() error { return sd.fleet.remember(sd.filter, taken) }) {
			return false
		}
		sd.note(sd.sent, uris)
		sd.note(sd.taken, taken)
		for {
			n, err := sd.master.addURIs(sd.name, uris)
			if err == nil {
				sd.answered(n, uris, taken)
				break
			}
			if sd.random.IntN(20) == 0 {
				break // the sender has died, too
			}
			if !sd.rest(50 * time.Millisecond) {
				return false
			}
		}
		if !sd.rest(rand64(sd.random, sd.o.spread()*2/100+1)) {
			return false
		}
	}
	return true
}

func (sd *sender) note(in map[string]bool, uris []string) {
	sd.mu.Lock()
	defer sd.mu.Unlock()
	for _, uri := range uris {
		in[uri] = true
	}
}

// answered compares an answer with what was sent.
func (sd *sender) answered(n added, uris, taken []string) {
	sd.note(sd.acked, uris)
	if n.Total == len(uris) && n.Added+n.Seen+n.Known == n.Total && n.Seen >= len(taken) {
		return
	}
	sd.mu.Lock()
	defer sd.mu.Unlock()
	sd.found = append(sd.found, fmt.Sprintf("%s: %d URIs, of which the filter knew %d or more, were answered %+v", sd.name, len(uris), len(taken), n))
}

// spread is the time over which URIs come in: half of the time that politeness makes the campaign last.
func (o Options) spread() time.Duration {
	return time.Duration(o.Tasks/o.Hosts) * o.Delay / 2
}

// tally counts the tasks that have ended, and the open ones. At least one counts as open while a
// sender sends or the master does not answer.
func tally(m *master, senders []*sender) (ended, open int, text string) {
	for _, sd := range senders {
		counts, err := m.counts(sd.name)
		if err != nil {
			return ended, open + 1, err.Error()
		}
		for state, n := range counts {
			if state == "done" || state == "failed" {
				ended += n
			} else {
				open += n
			}
		}
		sd.mu.Lock()
		if !sd.ended {
			open++
		}
		sd.mu.Unlock()
		var states []string
		for _, state := range slices.Sorted(maps.Keys(counts)) {
			states = append(states, fmt.Sprint(state, " ", counts[state]))
		}
		text += sd.name + " " + strings.Join(states, ", ") + "; "
	}
	return ended, open, text
}
