package campaign

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"
)

// Options of a campaign.
type Options struct {
	Roles []string // the processes, as the program's commands name them; the first is called
	Tasks int
	Hosts int
	Delay time.Duration // of the first job; others have more
	// Pause is the mean time between two kills.
	Pause time.Duration
	Seed  uint64
	Out   io.Writer // progress
	// Patience is how long the campaign waits for any task to end, before it calls the rest stuck.
	Patience time.Duration
}

// jobs are what the campaign downloads: one that asks a filter, one that shares its hosts with a
// longer delay, and one of high priority that comes late.
func jobs(o Options) []job {
	return []job{
		{name: "news", share: 60, filter: "uri_download", priority: 3, plan: plan{o.Delay, 2}},
		{name: "shop", share: 30, priority: 3, plan: plan{o.Delay * 3 / 2, 1}},
		{name: "late", share: 10, priority: 9, plan: plan{o.Delay, 3}, late: true},
	}
}

type job struct {
	name, filter    string
	share, priority int // percent of the tasks
	plan
	late bool
}

func (j job) text() string {
	return fmt.Sprintf("name: %s\nfilter: %q\npriority: %d\nsetting: {delay: %v, concurrency: %d, dispatch: 100000, max_download_times: 100, robots: false, timeout: 1m}\n",
		j.name, j.filter, j.priority, j.delay, j.concurrency)
}

// sender sends the URIs of a job, and knows what came of them.
type sender struct {
	job
	mu          sync.Mutex
	acked, sent map[string]bool
	ended       bool
}

// Run is a campaign. What it finds wrong fails the test.
func Run(t *testing.T, o Options) {
	t.Helper()
	all := jobs(o)
	plans := map[string]plan{}
	for _, j := range all {
		plans[j.name] = j.plan
	}
	s := newSites(t, o.Hosts, o.Delay*3/2, plans)
	f := newFleet(t, s.takeOver, o.Roles, "URIDOWNLOADER_DISPATCH_EVERY=5s", "URIDOWNLOADER_LOG_LEVEL=info")
	m := newMaster(f.members[0].addr)
	began := time.Now()
	fmt.Fprintf(o.Out, "campaign: seed %d, %d tasks on %d hosts, processes %v\n", o.Seed, o.Tasks, o.Hosts, o.Roles)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	var senders []*sender
	for i, j := range all {
		sd := &sender{job: j, acked: map[string]bool{}, sent: map[string]bool{}}
		senders = append(senders, sd)
		random := rand.New(rand.NewPCG(o.Seed, uint64(i)))
		sending.Go(func() { sd.send(o, m, s, random, stop) })
	}
	t.Cleanup(sending.Wait)
	t.Cleanup(func() { close(stop) })
	o.disturb(t, f, m, senders)
	sending.Wait()
	if left := o.settle(m, senders); left != "" {
		t.Errorf("stuck after %v: %s", o.Patience, left)
	}
	verdict := &judge{master: m, sites: s}
	acked, sent := 0, 0
	for _, sd := range senders {
		if err := verdict.job(sd.name, sd.acked, sd.sent); err != nil {
			t.Fatal(err)
		}
		acked, sent = acked+len(sd.acked), sent+len(sd.sent)
	}
	fmt.Fprintf(o.Out, "campaign: %v, %d kills, %d stops; %d URIs sent, %d answered, %d tasks, %d done, %d attempts; %s\n", time.Since(began).Round(time.Second),
		f.kills, f.stops, sent, acked, verdict.tasks, verdict.done, verdict.tries, s.summary())
	if f.kills == 0 || acked < o.Tasks/2 {
		t.Errorf("%d kills and %d answered URIs: too few to show anything", f.kills, acked)
	}
	for _, fault := range slices.Concat(verdict.found, s.faults(), f.faults()) {
		t.Error(fault)
	}
}

// send sends the URIs of a job in batches over about half of the campaign, each until it is
// answered; of some it never learns whether they arrived.
func (sd *sender) send(o Options, m *master, s *sites, random *rand.Rand, stop <-chan struct{}) {
	defer func() {
		sd.mu.Lock()
		sd.ended = true
		sd.mu.Unlock()
	}()
	n := o.Tasks * sd.share / 100
	rest := func(d time.Duration) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return true
		case <-stop:
			return false
		}
	}
	if sd.late && !rest(5*time.Second) {
		return
	}
	for m.addJob(sd.text()) != nil {
		if !rest(50 * time.Millisecond) {
			return
		}
	}
	batch := max(10, n/100)
	for i := 0; i < n; i += batch {
		var uris []string
		for k := i; k < min(n, i+batch); k++ {
			uris = append(uris, s.uri(sd.name, k, random))
		}
		sd.mu.Lock()
		for _, uri := range uris {
			sd.sent[uri] = true
		}
		sd.mu.Unlock()
		for {
			err := m.addURIs(sd.name, uris)
			if err == nil {
				sd.mu.Lock()
				for _, uri := range uris {
					sd.acked[uri] = true
				}
				sd.mu.Unlock()
				break
			}
			if random.IntN(20) == 0 {
				break // the sender has died as well
			}
			if !rest(50 * time.Millisecond) {
				return
			}
		}
		if !rest(time.Duration(random.Int64N(int64(o.spread())*2/100 + 1))) {
			return
		}
	}
}

// spread is over what time URIs come in: half of what politeness makes the campaign last.
func (o Options) spread() time.Duration {
	return time.Duration(o.Tasks/o.Hosts) * o.Delay / 2
}

// disturb ends processes at random until nine tenths of the tasks have ended.
func (o Options) disturb(t *testing.T, f *fleet, m *master, senders []*sender) {
	random := rand.New(rand.NewPCG(o.Seed, 1<<32))
	told := time.Now()
	watch := newProgress(o.Patience)
	for {
		time.Sleep(o.Pause/2 + time.Duration(random.Int64N(int64(o.Pause))))
		f.strike(f.members[random.IntN(len(f.members))], random)
		ended, open, text := tally(m, senders)
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			fmt.Fprintf(o.Out, "campaign: %d kills; %s\n", f.kills, text)
		}
		if open == 0 || ended >= o.Tasks*9/10 || watch.still(ended) {
			return
		}
	}
}

// settle waits for what is left, with nothing in its way. It returns what is stuck, or nothing.
func (o Options) settle(m *master, senders []*sender) string {
	watch := newProgress(o.Patience)
	for {
		ended, open, text := tally(m, senders)
		switch {
		case open == 0:
			return ""
		case watch.still(ended):
			return text
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// tally counts the tasks that have ended, and those that have not, of which there is one at least while
// a sender sends or the master does not answer.
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
		text += fmt.Sprintf("%s %v ", sd.name, counts)
	}
	return ended, open, text
}

// progress tells when nothing has happened for long.
type progress struct {
	patience time.Duration
	ended    int
	since    time.Time
}

func newProgress(patience time.Duration) *progress {
	return &progress{patience: patience, since: time.Now()}
}

func (p *progress) still(ended int) bool {
	if ended != p.ended {
		p.ended, p.since = ended, time.Now()
	}
	return time.Since(p.since) > p.patience
}
