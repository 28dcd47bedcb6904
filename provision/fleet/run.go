package fleet

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// run is the state of one Run.
type run struct {
	o       Options
	phases  []phase
	members []*member // in the order in which phases name them
	order   order     // of what is reported
	began   time.Time
	room    chan struct{} // holds one token a host that is worked on
	record  *record       // nil: not kept
	notice  string        // told at the beginning; "": nothing

	// hurry ends when an interrupted run has no more time for undoing.
	hurry context.Context

	mu       sync.Mutex // guards what follows, and the results in members
	results  []Result
	warnings []report.Warning
	warned   map[string]int // the first phases of warnings
	stopped  bool           // no job begins any more
	unsaved  bool           // a warning says so
	begun    bool           // a phase was
}

// phase is a Phase whose jobs know their hosts.
type phase struct {
	Phase
	jobs  []task
	batch int
}

type task struct {
	Job
	of *member
}

// prepare checks the call, and collects the hosts of all phases.
func prepare(phases []Phase, o Options) (*run, error) {
	if err := errors.Join(faults(phases, o)...); err != nil {
		return nil, Usage(err)
	}
	o.Parallel = cmp.Or(o.Parallel, 8)
	o.Grace = cmp.Or(o.Grace, 4*time.Second)
	o.UndoTime = cmp.Or(o.UndoTime, 3*time.Minute)
	if o.ID == "" {
		o.ID = newID(time.Now())
	}
	if o.Sink == nil {
		o.Sink = discard{}
	}
	r := &run{o: o, order: order{emit: report.Masked(o.Sink, o.Masker).Emit}, began: time.Now(), room: make(chan struct{}, o.Parallel), warned: map[string]int{}}
	byName := map[string]*member{}
	for _, p := range phases {
		batch, _ := batchSize(o.Batch, len(p.Jobs)) // faults has seen it
		q := phase{Phase: p, batch: batch}
		for _, j := range p.Jobs {
			m := byName[j.Host]
			if m == nil {
				m = &member{run: r, name: j.Host, connect: j.Connect}
				byName[j.Host] = m
				r.members = append(r.members, m)
			}
			m.jobs++
			m.required = m.required || p.Required
			for _, s := range j.Preflight {
				m.addPreflight(s)
			}
			q.jobs = append(q.jobs, task{j, m})
		}
		r.phases = append(r.phases, q)
	}
	return r, nil
}

// faults lists what is wrong with a call.
func faults(phases []Phase, o Options) (all []error) {
	if o.Parallel < 0 || o.Canary < 0 {
		all = append(all, fmt.Errorf("parallel %d, canary %d: numbers of hosts, not below 0", o.Parallel, o.Canary))
	}
	if _, err := batchSize(o.Batch, 1); err != nil {
		all = append(all, err)
	}
	if o.Resume && o.Runs == "" {
		all = append(all, errors.New("resume: no folder is given that keeps the results of runs"))
	}
	if o.Resume && o.Plan {
		all = append(all, errors.New("resume: a plan has nothing to resume"))
	}
	for _, p := range phases {
		seen := map[string]bool{}
		for _, j := range p.Jobs {
			if seen[j.Host] {
				all = append(all, fmt.Errorf("phase %s: %s is named twice", p.Name, j.Host))
			}
			seen[j.Host] = true
		}
	}
	return all
}

// newID sorts by time.
func newID(now time.Time) string {
	random := make([]byte, 3)
	_, _ = rand.Read(random) // never fails
	return now.UTC().Format("20060102T150405Z") + "-" + hex.EncodeToString(random)
}

type discard struct{}

func (discard) Emit(report.Event) {}

// emit stamps an event.
func (r *run) emit(e report.Event) {
	e.Time = time.Now()
	r.order.pass(e)
}

func (r *run) begin() {
	names := make([]string, len(r.members))
	for i, m := range r.members {
		names[i] = m.name
	}
	r.emit(report.Event{Kind: report.RunBegan, Run: r.o.ID, Text: r.o.Target, Hosts: names, Plan: r.o.Plan})
	if r.notice != "" {
		r.emit(report.Event{Kind: report.Said, Text: r.notice})
	}
	for _, m := range r.members {
		switch {
		case m.apart:
			m.record(Result{Status: report.Skipped, Detail: "not a host of the run that is resumed"})
		case m.skip:
			m.record(Result{Status: report.Skipped, Detail: "done in the run that is resumed"})
		}
	}
	r.save(nil)
}

// each calls work for all members, up to the limit concurrently, and waits.
func (r *run) each(members []*member, work func(*member)) {
	var all sync.WaitGroup
	for _, m := range members {
		all.Go(func() {
			r.room <- struct{}{}
			defer func() { <-r.room }()
			work(m)
		})
	}
	all.Wait()
}

// voice lets the steps of a host speak.
func (r *run) voice(m *member, phase string) func(ctx context.Context, name string) context.Context {
	return func(ctx context.Context, name string) context.Context {
		return step.WithVoice(inStep(ctx, name), func(text string, warning bool) {
			e := report.Event{Kind: report.Said, Phase: phase, Host: m.name, Step: name, Text: text}
			if warning {
				e.Kind = report.Warned
				if !r.warn(m.name, text) {
					return // a step that is looked at again warns again
				}
			}
			r.emit(e)
		})
	}
}

// warn keeps a warning for the summary. It returns false for a repeated warning of a host.
func (r *run) warn(on, text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, before := r.warned[text]; !before || r.order.of(on) < at {
		r.warned[text] = r.order.of(on)
	}
	for i, w := range r.warnings {
		if w.Text == text {
			if slices.Contains(w.Hosts, on) {
				return false
			}
			r.warnings[i].Hosts = append(w.Hosts, on)
			return true
		}
	}
	r.warnings = append(r.warnings, report.Warning{Text: text, Hosts: []string{on}})
	return true
}

func (r *run) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = true
}

func (r *run) isStopped(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.stopped || ctx.Err() != nil
}

// phase runs a phase, wave after wave.
func (r *run) phase(ctx context.Context, p phase) {
	jobs := slices.DeleteFunc(slices.Clone(p.jobs), func(j task) bool { return !j.of.able() })
	if len(jobs) == 0 {
		return
	}
	all := []wave{{jobs: jobs}}
	if p.Rolling {
		all = waves(jobs, r.o.Canary, p.batch)
	}
	var late wave
	for _, w := range all {
		if r.isStopped(ctx) {
			break
		}
		r.wave(ctx, p, w)
		if w.canary {
			r.runLate(ctx, p, w)
		} else {
			late.jobs = append(late.jobs, w.jobs...)
		}
	}
	r.runLate(ctx, p, late)
}

// runLate runs the late steps of hosts whose steps are done, even if the run is stopped or
// interrupted: the steps handle that.
func (r *run) runLate(ctx context.Context, p phase, w wave) {
	jobs := slices.DeleteFunc(slices.Clone(w.jobs), func(j task) bool { return !j.of.waits })
	r.work(p, wave{jobs: jobs, canary: w.canary}, func(m *member, j Job) { m.runLate(ctx, p.Name, j) })
}

func (r *run) wave(ctx context.Context, p phase, w wave) {
	names := make([]string, len(w.jobs))
	for i, j := range w.jobs {
		names[i] = j.of.name
	}
	r.mu.Lock()
	r.begun = true
	r.mu.Unlock()
	r.emit(report.Event{Kind: report.PhaseBegan, Phase: p.Name, Text: w.name, Hosts: names})
	r.work(p, w, func(m *member, j Job) {
		if ctx.Err() == nil {
			m.work(ctx, p.Name, j)
		}
	})
}

// work runs a part of the jobs of a wave, for all of its hosts concurrently.
func (r *run) work(p phase, w wave, part func(m *member, j Job)) {
	members := make([]*member, len(w.jobs))
	work := map[*member]Job{}
	for i, j := range w.jobs {
		members[i], work[j.of] = j.of, j.Job
	}
	r.each(members, func(m *member) {
		if part(m, work[m]); !m.waits {
			r.emit(report.Event{Kind: report.HostDone, Phase: p.Name, Host: m.name})
		}
	})
	for _, m := range members {
		if m.broken() && (w.canary || !r.o.KeepGoing) {
			r.stop()
		}
	}
}

// batchSize parses "3" or "25%" (of all); "" or 0 means all hosts at once.
func batchSize(batch string, all int) (int, error) {
	bad := fmt.Errorf("batch %q: a number of hosts, such as 3, or a share of them from 1%% to 100%%", batch)
	if batch == "" {
		return max(1, all), nil
	}
	number, share := strings.CutSuffix(batch, "%")
	n, err := strconv.Atoi(number)
	switch {
	case err != nil || n < 1 || share && n > 100:
		return 0, bad
	case share:
		return max(1, all*n/100), nil
	}
	return n, nil
}

// wave is the part of a phase whose hosts are changed concurrently.
type wave struct {
	name string // for people; "": the phase as a whole
	jobs []task
	// canary waves stop the run when they fail, also with KeepGoing.
	canary bool
}

// waves splits the jobs of a rolling phase. The batch is a share of all hosts of the
// phase, also where some of them are left out.
func waves(jobs []task, canary, batch int) []wave {
	var all []wave
	if n := min(canary, len(jobs)); n > 0 {
		all = append(all, wave{name: "canary", jobs: jobs[:n], canary: true})
		jobs = jobs[n:]
	}
	count := (len(jobs) + batch - 1) / batch
	for i := 1; len(jobs) > 0; i++ {
		n := min(batch, len(jobs))
		all = append(all, wave{name: fmt.Sprintf("batch %d of %d", i, count), jobs: jobs[:n]})
		jobs = jobs[n:]
	}
	return all
}
