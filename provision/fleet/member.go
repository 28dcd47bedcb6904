package fleet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// member is a host of a run.
type member struct {
	run       *run
	name      string
	connect   func(ctx context.Context) (host.Host, io.Closer, error)
	preflight []step.Step
	jobs      int    // that the run has for it
	required  bool   // by later phases
	skip      bool   // a resumed run has no need of it
	apart     bool   // the run that is resumed did not concern it
	machine   string // its machine-id, "" if it does not tell; known when it is locked

	// Of the goroutine that works on the host.
	pending bool          // in a plan: a step before would have changed something
	begun   []step.Undoer // of the job under way, to be undone
	waits   bool          // the late steps of the job under way are left to do
	memo    memo

	mu     sync.Mutex
	conn   host.Host
	closer io.Closer
	lock   *lock
	loss   error // the lock was lost
	cancel context.CancelCauseFunc
	done   int // jobs

	// Guarded by run.mu.
	status report.Status // the worst so far; "" before the first result
	sum    report.HostSummary
}

func (m *member) addPreflight(s step.Step) {
	if !slices.ContainsFunc(m.preflight, func(have step.Step) bool { return have.Title() == s.Title() }) {
		m.preflight = append(m.preflight, s)
	}
}

// able reports whether the host can take more work.
func (m *member) able() bool { return !m.skip && !m.broken() }

func (m *member) broken() bool {
	m.run.mu.Lock()
	defer m.run.mu.Unlock()
	return m.status == report.Failed || m.status == report.Unreachable || m.status == report.Interrupted
}

// open makes the connection.
func (m *member) open(ctx context.Context) {
	began := time.Now()
	m.run.emit(report.Event{Kind: report.StepBegan, Host: m.name, Step: "connect"})
	conn, closer, err := m.connect(m.run.voice(m, "")(ctx, "connect"))
	if err != nil {
		m.record(Result{Step: "connect", Status: m.connectStatus(ctx, err), Err: err, Took: time.Since(began)})
		return
	}
	m.mu.Lock()
	m.conn, m.closer = conn, closer
	m.mu.Unlock()
	m.record(Result{Step: "connect", Status: report.OK, Took: time.Since(began)})
}

// connectStatus is statusOf for a failed connection, which may be that of a bastion.
func (m *member) connectStatus(ctx context.Context, err error) report.Status {
	if !interrupted(ctx, err) && errors.As(err, new(*host.ConnectionError)) {
		return report.Unreachable
	}
	return statusOf(ctx, m, err)
}

// host is the open connection, seen by the sink.
func (m *member) host(phase string) host.Host {
	m.mu.Lock()
	defer m.mu.Unlock()
	return watched{m.conn, func(e report.Event) {
		e.Phase, e.Host = phase, m.name
		m.run.emit(e)
	}, &m.memo, false}
}

func (m *member) check(ctx context.Context) {
	early := 0
	for i, s := range m.preflight {
		if i >= early {
			early = i + m.glance(ctx, m.preflight[i:])
		}
		if !m.record(m.try(ctx, "", s, nil)) {
			return
		}
	}
}

// work runs a job.
func (m *member) work(ctx context.Context, phase string, j Job) {
	guarded, end := m.guard(ctx)
	defer end()
	began := time.Now()
	if !m.run.o.Plan {
		m.memo.forget() // the host may have waited for others for long
	}
	m.run.emit(report.Event{Kind: report.StepBegan, Phase: phase, Host: m.name, Step: "prepare"})
	steps, err := m.steps(guarded, phase, j)
	if err != nil {
		m.record(Result{Phase: phase, Step: "prepare", Status: statusOf(ctx, m, err), Err: err, Took: time.Since(began)})
		return
	}
	m.record(Result{Step: "prepare", Status: report.OK, Took: time.Since(began)})
	m.begun = nil
	if !m.doAll(ctx, guarded, phase, steps) {
		return
	}
	if m.waits = len(j.Late) > 0; !m.waits {
		m.finish()
	}
}

// runLate runs the late steps of a job whose other steps are done.
func (m *member) runLate(ctx context.Context, phase string, j Job) {
	guarded, end := m.guard(ctx)
	defer end()
	m.waits = false
	if !m.run.o.Plan {
		m.memo.forget()
	}
	if m.doAll(ctx, guarded, phase, j.Late) {
		m.finish()
	}
}

// finish notes that the job is complete.
func (m *member) finish() {
	m.mu.Lock()
	m.done++
	m.mu.Unlock()
	m.run.save(nil)
}

// doAll runs steps until one fails. Then it undoes those that were begun.
func (m *member) doAll(ctx, guarded context.Context, phase string, steps []step.Step) bool {
	early := 0
	for i, s := range steps {
		if i >= early {
			early = i + m.glance(guarded, steps[i:])
		}
		r := m.try(guarded, phase, s, &m.begun)
		if r.Err != nil && ctx.Err() == nil && context.Cause(guarded) != nil {
			r.Err = &lossError{context.Cause(guarded), r.Err}
			r.Status = statusOf(ctx, m, r.Err)
		}
		if !m.record(r) {
			m.undo(ctx, phase, m.begun, r.Err)
			m.run.save(nil)
			return false
		}
	}
	return true
}

func (m *member) steps(ctx context.Context, phase string, j Job) (steps []step.Step, err error) {
	defer recovered(&err)
	steps, err = j.Steps(m.run.voice(m, phase)(ctx, "prepare"), m.host(phase))
	if err != nil {
		return nil, err
	}
	for _, s := range steps {
		switch s.(type) {
		case step.Wish, step.Proof:
		default:
			return nil, fmt.Errorf("step %q: %T is neither a wish nor a proof", s.Title(), s)
		}
	}
	return steps, nil
}

// try runs one step, and adds it to begun before it changes anything that can be
// undone. Without begun nothing is changed: a difference is an error.
func (m *member) try(ctx context.Context, phase string, s step.Step, begun *[]step.Undoer) (r Result) {
	r = Result{Phase: phase, Step: s.Title(), Status: report.OK}
	if _, proves := s.(step.Proof); proves && m.run.o.Plan && m.pending {
		r.Status, r.Detail = report.Skipped, "after the changes"
		return r
	}
	began := time.Now()
	m.run.emit(report.Event{Kind: report.StepBegan, Phase: phase, Host: m.name, Step: s.Title()})
	r.Err = m.execute(m.run.voice(m, phase)(ctx, s.Title()), m.host(phase), s, begun, &r)
	if r.Err != nil {
		r.Status = statusOf(ctx, m, r.Err)
	}
	r.Took = time.Since(began)
	return r
}

func (m *member) execute(ctx context.Context, h host.Host, s step.Step, begun *[]step.Undoer, r *Result) (err error) {
	defer recovered(&err)
	if err := ctx.Err(); err != nil {
		return err
	}
	if proof, proves := s.(step.Proof); proves {
		return proof.Prove(ctx, h)
	}
	wish := s.(step.Wish) // steps has seen to it
	change, err := wish.Look(ctx, h)
	if err != nil || change == nil {
		return err
	}
	r.Detail, r.Diff = change.Summary, change.Diff
	switch {
	case begun == nil:
		return fmt.Errorf("needed first: %s", change.Summary)
	case m.run.o.Plan:
		r.Status, m.pending = report.WouldChange, true
		return nil
	case change.Apply == nil:
		return errors.New("a change without a way to apply it")
	}
	if undoer, can := wish.(step.Undoer); can {
		*begun = append(*begun, undoer)
	}
	if err := change.Apply(ctx); err != nil {
		return err
	}
	r.Status = report.Changed
	if change.Act {
		return nil
	}
	left, err := wish.Look(ctx, h)
	if err != nil {
		return fmt.Errorf("check after the change: %w", err)
	}
	if left != nil {
		return fmt.Errorf("still differs after apply: %s%s", left.Summary, below(left.Diff))
	}
	return nil
}

func below(diff string) string {
	if diff == "" {
		return ""
	}
	return "\n" + diff
}

// recovered turns a panic into a failure of one host: the other hosts, and the undoing of
// begun steps, continue.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("panic: %v\n%s\nhint: this is a fault of the toolkit; please report it with these lines", p, debug.Stack())
	}
}
