package downloads

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
	Roles   []string // the processes, by the names of the program's commands; the first one is called
	Filter  bool     // they use a filter daemon
	Redis   bool     // they notify each other through Redis
	MongoDB bool     // their store is there
	Tasks   int
	Hosts   int
	Delay   time.Duration // of the first job; others have longer ones
	// Pause is the mean time between two strikes.
	Pause time.Duration
	Seed  uint64
	Out   io.Writer // progress
	// Patience is how long the campaign waits for any task to end before it declares the rest stuck.
	Patience time.Duration
	Keep     string // a folder for the data and logs of the processes; "": a temporary one
}

// Run is a campaign. The test fails if it finds faults.
func Run(t *testing.T, o Options) {
	t.Helper()
	all := jobs(o)
	plans := map[string]plan{}
	for _, j := range all {
		plans[j.name] = j.plan
		if j.dropped {
			plans["dropped"] = j.plan
		}
	}
	s := newSites(t, o.Hosts, o.Delay*3/2, plans)
	s.several = len(o.Roles) > 1
	f := newFleet(t, o)
	m := newMaster(f.members[0].addr)
	began := time.Now()
	fmt.Fprintf(o.Out, "campaign: seed %d, %d tasks on %d hosts, processes %v\n", o.Seed, o.Tasks, o.Hosts, o.Roles)
	stop := make(chan struct{})
	var sending sync.WaitGroup
	var senders []*sender
	for i, j := range all {
		sd := &sender{job: j, o: o, fleet: f, master: m, sites: s, random: rand.New(rand.NewPCG(o.Seed, uint64(i))), stop: stop,
			acked: map[string]bool{}, sent: map[string]bool{}, taken: map[string]bool{}}
		senders = append(senders, sd)
		sending.Go(sd.run)
	}
	t.Cleanup(sending.Wait)
	t.Cleanup(func() { close(stop) })
	o.disturb(f, m, senders)
	if left := o.settle(m, senders); left != "" {
		t.Fatalf("stuck after %v: %s", o.Patience, left)
	}
	sending.Wait()
	verdict := &judge{master: m, sites: s, stops: f.stops + f.shardsLost()}
	acked, sent, taken := 0, 0, 0
	for _, sd := range senders {
		if err := verdict.job(sd); err != nil {
			t.Fatal(err)
		}
		acked, sent, taken = acked+len(sd.acked), sent+len(sd.sent), taken+len(sd.taken)
	}
	fmt.Fprintf(o.Out, "campaign: %v, struck %v; %d URIs sent, %d answered, %d of them falsely seen; %d tasks, %d done, %d attempts and %d abandoned leases, at most %d of one task; %s\n",
		time.Since(began).Round(time.Second), f.struck, sent, acked, taken, verdict.tasks, verdict.done, verdict.tries, verdict.abandoned, verdict.maxAbandoned, s.summary())
	if f.strikes() < 2 || acked < o.Tasks/2 || verdict.abandoned == 0 {
		t.Errorf("%d strikes, %d abandoned leases and %d answered URIs: too few to show anything", f.strikes(), verdict.abandoned, acked)
	}
	for _, fault := range slices.Concat(verdict.found, s.faults(), f.faults()) {
		t.Error(fault)
	}
}

// disturb strikes at random until nine tenths of the tasks have ended.
func (o Options) disturb(f *fleet, m *master, senders []*sender) {
	random := rand.New(rand.NewPCG(o.Seed, 1<<32))
	told := time.Now()
	watch := newProgress(o.Patience)
	for {
		time.Sleep(o.Pause/2 + rand64(random, o.Pause))
		f.strike(random)
		ended, open, text := tally(m, senders)
		if time.Since(told) > 30*time.Second {
			told = time.Now()
			fmt.Fprintf(o.Out, "campaign: %d strikes; %s\n", f.strikes(), text)
		}
		if open == 0 || ended >= o.Tasks*9/10 || watch.still(ended) {
			return
		}
	}
}

// settle waits undisturbed for the remaining tasks. It returns what is stuck, or "".
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
		time.Sleep(time.Second)
	}
}

// progress detects that nothing has happened for a long time.
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
