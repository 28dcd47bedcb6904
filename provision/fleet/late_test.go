package fleet

import (
	"context"
	"errors"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

// watched returns a job that changes something and is then watched.
func (s *scene) watched(on string, fault error) Job {
	j := job(on, s.change(on, "x", nil))
	j.Late = []step.Step{
		step.NewProof("bake", func(context.Context, host.Host) error { s.did("%s baked", on); return fault }),
		s.change(on, "mark", nil),
	}
	return j
}

// The canary is watched before the other hosts begin; the others are watched when all of them
// have finished their steps.
func TestWhenHostsAreWatched(t *testing.T) {
	t.Parallel()
	s := &scene{}
	o := s.options()
	o.Canary, o.Batch, o.Parallel = 1, "1", 1
	phases := []Phase{{Name: "p", Rolling: true, Jobs: []Job{s.watched("a", nil), s.watched("b", nil), s.watched("c", nil)}}}
	sum, err := Run(t.Context(), phases, o)
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a changed", "b changed", "c changed")
	if len(s.log) != 9 {
		t.Fatalf("%q", s.log)
	}
	s.log = append(s.log[:5], "then")
	s.wantLog(t, "a x", "a baked", "a mark", "b x", "c x", "then")
	done := 0
	for _, e := range s.events {
		if e.Kind == report.HostDone {
			done++
		}
	}
	if done != 3 {
		t.Errorf("%d hosts were told to be done, want each once", done)
	}
}

// A fault that is found while a host is watched undoes its whole job: on a canary it ends the
// run, on another host it leaves the rest as they are.
func TestWhatIsFoundOutLate(t *testing.T) {
	t.Parallel()
	s := &scene{}
	o := s.options()
	o.Canary = 1
	sum, err := Run(t.Context(), []Phase{{Name: "p", Rolling: true, Jobs: []Job{s.watched("a", errBroken), s.watched("b", nil)}}}, o)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed", "b not started")
	s.wantLog(t, "a x", "a baked", "undo a x")

	s = &scene{}
	o = s.options()
	o.Batch, o.Parallel = "1", 1
	sum, err = Run(t.Context(), []Phase{{Name: "p", Rolling: true, Jobs: []Job{s.watched("a", errBroken), s.watched("b", nil)}}}, o)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a failed", "b changed")
	if !s.happened("undo a x") || !s.happened("b mark") || s.happened("undo b x") {
		t.Errorf("done: %q", s.log)
	}
}

// Hosts whose steps are done are watched although another host fails; a host that was not begun
// is not watched. A run that is interrupted meanwhile records the watched hosts as not done.
func TestWhoIsWatched(t *testing.T) {
	t.Parallel()
	s := &scene{}
	bad := s.watched("b", nil)
	bad.Steps = job("b", s.change("b", "x", broken)).Steps
	o := s.options()
	o.Batch = "1"
	sum, err := Run(t.Context(), []Phase{{Name: "p", Rolling: true, Jobs: []Job{s.watched("a", nil), bad, s.watched("c", nil)}}}, o)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a changed", "b failed", "c not started")
	s.wantLog(t, "a x", "b x", "undo b x", "a baked", "a mark")

	s = &scene{}
	ctx, cancel := context.WithCancel(t.Context())
	a := s.watched("a", nil)
	a.Late[0] = step.NewProof(a.Late[0].Title(), func(ctx context.Context, _ host.Host) error { cancel(); <-ctx.Done(); return ctx.Err() })
	o.Runs = t.TempDir()
	r, err := prepare([]Phase{{Name: "p", Jobs: []Job{a}}}, o)
	if err != nil {
		t.Fatal(err)
	}
	r.record = &record{ID: r.o.ID, Target: "deploy"}
	r.begin()
	stop := r.timekeeper(ctx)
	defer stop()
	r.open(ctx)
	r.phase(ctx, r.phases[0])
	sum, err = r.end(ctx)
	wantCode(t, err, CodeInterrupted)
	wantStatuses(t, sum, "a interrupted")
	if last, err := lastRun(o.Runs, "deploy"); err != nil || last.Hosts[0].Done {
		t.Errorf("record: %+v, %v", last, err)
	}
}

// A plan looks at late steps as it does at other steps.
func TestPlanOfLateSteps(t *testing.T) {
	t.Parallel()
	s := &scene{}
	o := s.options()
	o.Plan = true
	sum, err := Run(t.Context(), []Phase{{Name: "p", Rolling: true, Jobs: []Job{s.watched("a", errors.New("asked"))}}}, o)
	wantCode(t, err, CodeDone)
	if sum.Hosts[0].Changed != 2 || len(s.log) != 0 {
		t.Errorf("%+v, %q", sum.Hosts[0], s.log)
	}
}
