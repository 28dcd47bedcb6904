package fleet

import (
	"context"
	"errors"
	"sync"

	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// plan runs the phases of a plan. Nothing is changed, so no host waits for others: it takes its jobs one after
// the other. What is reported of them is in the order of the phases all the same.
func (r *run) plan(ctx context.Context) {
	type part struct {
		phase   int // from 1 on: what comes before all of them is 0
		job     task
		runs    bool // known when it is entered
		entered chan struct{}
		done    chan struct{}
	}
	parts, of := make([][]*part, len(r.phases)), map[*member][]*part{}
	for n, p := range r.phases {
		for _, j := range p.jobs {
			one := &part{phase: n + 1, job: j, entered: make(chan struct{}), done: make(chan struct{})}
			parts[n], of[j.of] = append(parts[n], one), append(of[j.of], one)
		}
	}
	var all sync.WaitGroup
	for m, jobs := range of {
		all.Go(func() {
			for _, one := range jobs {
				if one.runs = m.able() && !r.isStopped(ctx); one.runs {
					r.order.enter(m.name, one.phase)
				}
				close(one.entered)
				if one.runs {
					name := r.phases[one.phase-1].Name
					r.each([]*member{m}, func(*member) {
						if m.work(ctx, name, one.job.Job); m.waits {
							m.runLate(ctx, name, one.job.Job)
						}
						r.emit(report.Event{Kind: report.HostDone, Phase: name, Host: m.name})
					})
				}
				close(one.done)
			}
		})
	}
	for n, p := range r.phases {
		var names []string
		for _, one := range parts[n] {
			if <-one.entered; one.runs {
				names = append(names, one.job.of.name)
			}
		}
		if len(names) > 0 {
			r.emit(report.Event{Kind: report.PhaseBegan, Phase: p.Name, Hosts: names})
		}
		r.order.reach(n + 1)
		for _, one := range parts[n] {
			<-one.done
		}
	}
	all.Wait()
}

// order holds back what is reported of hosts that are ahead of the others.
type order struct {
	emit func(report.Event)

	mu   sync.Mutex
	now  int                    // the phase that is reported
	at   map[string]int         // the phases of hosts
	held map[int][]report.Event // by phase
}

// enter notes that a host has begun with a phase.
func (o *order) enter(host string, phase int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.at == nil {
		o.at, o.held = map[string]int{}, map[int][]report.Event{}
	}
	o.at[host] = phase
}

// of returns the phase of a host.
func (o *order) of(host string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.at[host]
}

// pass reports an event, in its phase.
func (o *order) pass(e report.Event) {
	o.mu.Lock()
	if at := o.at[e.Host]; at > o.now {
		o.held[at] = append(o.held[at], e)
		o.mu.Unlock()
		return
	}
	o.mu.Unlock()
	o.emit(e)
}

// reach reports what was held back for a phase, and from now on what happens in it.
func (o *order) reach(phase int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.held[phase] {
		o.emit(e)
	}
	delete(o.held, phase)
	o.now = phase
}

// glance has the first of some steps, those that [step.Early] has marked, ask the host at the same time: a
// round trip may take a fifth of a second, and there are dozens of questions. Their turns follow, as if there had
// been none of this, but find the answers in the memo, as long as nothing has changed since. It returns how many
// they are, and when all have asked: nothing is changed or proved meanwhile.
func (m *member) glance(ctx context.Context, steps []step.Step) int {
	m.memo.settle()
	asks := step.Glances(steps)
	if len(asks) < 2 {
		return len(asks)
	}
	m.mu.Lock()
	h := watched{m.conn, func(report.Event) {}, &m.memo, true}
	m.mu.Unlock()
	var all sync.WaitGroup
	for _, ask := range asks {
		all.Go(func() {
			var err error // what is wrong is found, and told, in the turn of the step
			defer recovered(&err)
			err = ask(ctx, h)
		})
	}
	all.Wait()
	return len(asks)
}

// errAhead ends the early look of a step that would do more than ask what can be remembered.
var errAhead = errors.New("not before the turn of the step")
