package fleet

import (
	"context"
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
