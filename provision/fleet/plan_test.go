package fleet

import (
	"context"
	"slices"
	"testing"

	"github.com/cr-clawer/urifilter/provision/host"
	"github.com/cr-clawer/urifilter/provision/report"
	"github.com/cr-clawer/urifilter/provision/step"
)

func TestPlanChangesNothing(t *testing.T) {
	t.Parallel()
	s := &scene{state: map[string]bool{"b x": true}}
	proof := func(name string) step.Step {
		return step.NewProof("health", func(context.Context, host.Host) error { s.did("proved %s", name); return nil })
	}
	bad := step.NewWish("bad", func(context.Context, host.Host) (*step.Change, error) { return nil, errBroken })
	phases := []Phase{
		{Name: "one", Rolling: true, Jobs: []Job{
			job("a", s.change("a", "x", nil), proof("a")), job("b", s.change("b", "x", nil), proof("b")), job("c", bad, s.change("c", "x", nil)),
		}},
		{Name: "two", Jobs: []Job{job("a", proof("a")), job("b", s.change("b", "y", nil))}},
	}
	o := s.options()
	o.NoLock, o.Plan, o.Canary = false, true, 1 // locks would fail on these hosts
	sum, err := Run(t.Context(), phases, o)
	wantCode(t, err, CodeFailed)
	wantStatuses(t, sum, "a would change", "b would change", "c failed")
	s.wantLog(t, "proved b")
	for _, r := range sum.Results {
		if r.Host == "a" && r.Step == "x" && (r.Diff != "+x\n" || r.Detail != "make x") {
			t.Errorf("result: %+v", r)
		}
		if r.Host == "a" && r.Step == "health" && r.Status != report.Skipped {
			t.Errorf("proof after changes: %+v", r)
		}
	}

	phases[0].Jobs = phases[0].Jobs[:2]
	_, err = Run(t.Context(), phases, o)
	wantCode(t, err, CodeDone)
	o.ExitCode = true
	_, err = Run(t.Context(), phases, o)
	wantCode(t, err, CodeChanges)
	if _, err = Run(t.Context(), phases, s.options()); err != nil {
		t.Fatal(err)
	}
	sum, err = Run(t.Context(), phases, o)
	wantCode(t, err, CodeDone)
	wantStatuses(t, sum, "a ok", "b ok")
}

// In a plan no host waits for another one, and yet everything is reported in the order of the phases.
func TestPlanIsReportedInOrder(t *testing.T) {
	t.Parallel()
	ahead := make(chan struct{})
	look := func(name string, do func(context.Context)) step.Step {
		return step.NewWish(name, func(ctx context.Context, _ host.Host) (*step.Change, error) {
			step.Warn(ctx, "warning of %s", name)
			do(ctx)
			return nil, nil
		})
	}
	nothing := func(context.Context) {}
	phases := []Phase{
		{Name: "one", Jobs: []Job{job("a", look("first", func(ctx context.Context) {
			select {
			case <-ahead:
			case <-ctx.Done():
			}
		}))}},
		{Name: "two", Jobs: []Job{job("b", look("second", nothing)), away("gone")}},
		{Name: "three", Jobs: []Job{job("b", look("third", func(context.Context) { close(ahead) })), job("a", look("fourth", nothing))}},
		{Name: "four", Jobs: []Job{away("gone")}},
	}
	s := &scene{}
	o := s.options()
	o.Plan = true
	sum, err := Run(t.Context(), phases, o)
	wantCode(t, err, CodeUnreachable)
	wantStatuses(t, sum, "a ok", "b ok", "gone unreachable")
	var told, results []string
	last := "" // the phase
	for _, e := range s.events {
		switch e.Kind {
		case report.PhaseBegan:
			last = e.Phase
			told = append(told, last)
		case report.StepBegan, report.StepEnded, report.Warned, report.HostDone:
			if e.Phase != "" && e.Phase != last {
				t.Errorf("in phase %s: %+v", last, e)
			}
		}
	}
	if want := []string{"one", "two", "three"}; !slices.Equal(told, want) {
		t.Errorf("phases %q, want %q", told, want)
	}
	for _, r := range sum.Results {
		if r.Phase != "" {
			results = append(results, r.Phase)
		}
	}
	if want := []string{"one", "two", "three", "three"}; !slices.Equal(results, want) {
		t.Errorf("results of %q, want %q", results, want)
	}
	for i, name := range []string{"first", "second"} {
		if sum.Warnings[i].Text != "warning of "+name {
			t.Errorf("warning %d: %+v", i, sum.Warnings[i])
		}
	}
}
